"""Runs whose updates select tokens: the share is a key of the recipe and a number in the log."""

from pathlib import Path

import pytest

from rollwright.evidence import query
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.cells import labels_of, number
from tests.end_to_end.small import Listener, small_rl


@pytest.mark.row("S185", "S186")
@pytest.mark.parametrize("share", [0.05, 0.2])
@pytest.mark.parametrize("surrogate", ['kind="clip_cov", low=0.0, high=1e6', 'kind="kl_cov"'])
def test_the_share_of_selected_tokens_is_asked_for_and_logged(surrogate: str, share: float, tmp_path: Path) -> None:
    # Turns long enough that some end by themselves: where all are cut, no token has an advantage or a covariance.
    settings = ("run.steps=1", "evaluation.every=1", "evaluation.tasks=4", "rollout.max_turn_tokens=120")
    resolved = small_rl(*settings, f"objective.surrogate={{{surrogate}, share={share}}}")
    order = TrainOrder(resolved=resolved, run_dir=tmp_path / "run", source=None, is_rollouts_only=False)
    train_run(order, Listener())
    rows = query(tmp_path / "run", "SELECT value, labels, num_items FROM metrics WHERE name = 'entropy/cov_share'").rows
    ((selected, labels, num_tokens),) = rows
    assert set(labels_of(labels)) == {"model"}
    assert number(selected) == pytest.approx(int(share * number(num_tokens)) / number(num_tokens))
