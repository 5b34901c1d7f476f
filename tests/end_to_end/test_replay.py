"""A run is trained again by its own schedule: the same tokens, the same losses, the same weights."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from rollwright.evidence import StoredRun, query
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.replays import replay_run
from rollwright.recipes.runs import TrainOrder, resume_run, train_run
from rollwright.runtime.errors import ReplayError
from tests.end_to_end.children import start_command
from tests.end_to_end.small import Listener, commits_of, kill, small, start, wait_for

ASYNC = ("run.steps=6", "evaluation.every=3", "runtime.max_lag=2")


def weights(path: Path) -> dict[str, np.ndarray]:
    return load_file(max((path / "checkpoints").iterdir()) / "model.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("replay") / "run"
    train_run(TrainOrder(resolved=small(*ASYNC), run_dir=path, source=None, is_rollouts_only=False), Listener())
    return path


def test_an_asynchronous_run_trains_tokens_of_older_versions_and_none_beyond_its_bound(trained: Path) -> None:
    asked = (
        "SELECT ledger.step - 1 - min(segments.policy_version) FROM ledger JOIN segments USING (trajectory_id) "
        "WHERE ledger.state = 'trained' AND segments.origin = 'policy' GROUP BY trajectory_id, ledger.step"
    )
    lags = {lag for (lag,) in query(trained, asked).rows}
    assert lags <= {0, 1, 2} and lags & {1, 2}


def test_an_asynchronous_run_replays_to_its_own_weights(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    child = start_command(["replay", trained, "--json", "--run-dir", again], tmp_path).ended()
    assert child.code == 0, child.err
    assert (child.last["is_equal"], child.last["steps"]) == (True, 9)
    before, after = weights(trained), weights(again)
    assert before.keys() == after.keys()
    assert all(np.array_equal(before[name], after[name]) for name in before)
    for step in StoredRun(trained).steps[1:]:
        stored, replayed = (
            [m.value for m in StoredRun(path).metrics(step) if m.name in {"policy/loss", "policy/grad_norm"}]
            for path in (trained, again)
        )
        assert len(stored) > 1 and stored == replayed


def test_a_replay_that_draws_other_tokens_ends_at_the_first_of_them(trained: Path, tmp_path: Path) -> None:
    order = TrainOrder(
        resolved=small(*ASYNC, "run.seed=1"),
        run_dir=tmp_path / "other",
        source=None,
        is_rollouts_only=False,
        follow=trained,
    )
    with pytest.raises(ReplayError, match=r"differs first in trajectory t\d+-\d+-0, segment \d+ .*stored"):
        train_run(order, Listener())


def test_a_killed_replay_is_not_resumed_but_begun_anew(trained: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    process = start("replay", trained, "--json", "--run-dir", again)
    wait_for(process, lambda: len(commits_of(again)) > 0)
    kill(process)
    with pytest.raises(RecipeError, match=f"{again} replays .*delete .*rollwright replay {trained}"):
        resume_run(again, Listener())
    with pytest.raises(RecipeError, match=f"{again} already holds a run.*--run-dir"):
        replay_run(trained, again, Listener())
