"""Terms beside the policy gradient, through the real loop: coefficients that follow a metric, and the reference.

Both are part of a checkpoint, and a run that was killed goes on with what it had.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from rollwright.evidence import query, table_hashes
from rollwright.learner.causal_learner import LearnerSettings, make_learner
from rollwright.learner.models import load_causal_lm
from rollwright.learner.optimizer import OptimizerSettings, Schedule
from rollwright.recipes.runs import TrainOrder, train_run
from tests.cases import case
from tests.end_to_end.cells import labels_of, number
from tests.end_to_end.children import start_command
from tests.end_to_end.small import RECIPE, Listener, arguments, small

FOLLOWING = (
    "run.steps=4",
    "evaluation.every=4",
    "evaluation.tasks=4",
    "stages.warm_start.steps=2",
    "learner.num_minibatches=2",
    "runtime.checkpoint_every=2",
    "objective.kl_coefficient=0.1",
    "objective.kl_target=1e-3",
    "objective.kl_horizon=64",
    "objective.entropy_target=20",
    "objective.entropy_step=0.001",
    'objective.surrogate={kind="outer_clip", clip_low=0.2, outer_low=0.3, outer_high=3.0, entropy_target=20.0, '
    "step=0.01, largest=0.05}",
)
"""Two updates a step; the KL starts at 0 and the entropy stays below its targets, so that all coefficients move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """A run that nothing disturbed."""

    path: Path


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    path = tmp_path_factory.mktemp("controllers") / "undisturbed"
    train_run(TrainOrder(resolved=small(*FOLLOWING), run_dir=path, source=None, is_rollouts_only=False), Listener())
    return Undisturbed(path=path)


def values_of(run: Path, name: str) -> list[float]:
    """Of a metric over all tokens of each update that has it, in order."""
    rows = query(run, 'SELECT name, value, labels FROM metrics WHERE value IS NOT NULL ORDER BY "update"').rows
    return [number(value) for found, value, labels in rows if found == name and set(labels_of(labels)) == {"model"}]


def controllers(run: Path, step: int) -> list[Mapping[str, float]]:
    """Their states in the checkpoint of a step."""
    progress = run / "checkpoints" / f"step-{step:06d}" / "progress.json"
    return json.loads(progress.read_text(encoding="utf-8"))["controllers"]


def test_each_update_has_the_coefficient_that_the_one_before_it_left(undisturbed: Undisturbed) -> None:
    kl, entropy = (values_of(undisturbed.path, name) for name in ("policy/kl_coef", "entropy/coef"))
    assert len(kl) == len(entropy) == 4 * 2
    # c rises by a step at every update; the first has none.
    assert entropy == pytest.approx([0.001 * update for update in range(8)])
    assert kl[0] == 0.1 and len(set(kl)) > 1
    # The KL of every update is 0, which moves nothing, or under 0.8 of its target, which is the whole step down.
    distances = values_of(undisturbed.path, "policy/kl_ref")
    assert max(distances) < 0.8e-3 and distances[:2] == [0.0, 0.0]
    moves = [after / before for before, after in pairwise(kl)]
    step = moves[-1]
    assert step < 1.0
    assert moves == pytest.approx([step if distance > 0 else 1.0 for distance in distances[:7]])


def upper_bounds(run: Path) -> list[float]:
    """Of the clip, as each update had it."""
    rows = query(
        run, """SELECT value FROM metrics WHERE name = 'policy/coef' AND value IS NOT NULL ORDER BY "update" """
    )
    return [number(value) for (value,) in rows.rows]


@pytest.mark.row("S219")
def test_the_upper_bound_of_the_clip_moves_with_the_entropy_and_stops_at_its_limit(undisturbed: Undisturbed) -> None:
    # The entropy is below its target in every update: k rises by a step each time, up to the largest.
    assert max(values_of(undisturbed.path, "entropy/full")) < 20
    expected = [1 / 0.8 + min(0.01 * update, 0.05) for update in range(8)]
    assert upper_bounds(undisturbed.path) == pytest.approx(expected)


@pytest.mark.row("S184", "S219")
def test_the_checkpoint_holds_the_state_of_the_controllers(undisturbed: Undisturbed) -> None:
    bound, kl, entropy = controllers(undisturbed.path, 6)
    assert bound == {"widening": pytest.approx(0.05)}
    assert kl["coefficient"] != 0.1
    assert entropy == {"c": pytest.approx(0.008), "is_active": 1.0}
    assert controllers(undisturbed.path, 4)[0] == {"widening": pytest.approx(0.04)}
    # The first checkpoint of a stage is from before its controllers.
    assert controllers(undisturbed.path, 2) == []


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, killed while it made its last step and resumed from the step before the one behind it."""
    folder = tmp_path_factory.mktemp("controllers")
    run = folder / "killed"
    child = start_command(["train", RECIPE, "--json", "--run-dir", run, *arguments(*FOLLOWING)], folder)
    # The sixth commit is that of step 5; the newest checkpoint is then of step 4.
    assert child.wait_for(lambda: any((run / "commits").glob("000006*"))), "the run ended before it came there"
    child.kill()
    ended = start_command(["resume", run, "--json"], folder).ended()
    assert ended.code == 0, ended.err
    return run


@pytest.mark.row("S184", "S219")
def test_a_killed_run_goes_on_with_the_coefficients_that_it_had(undisturbed: Undisturbed, resumed: Path) -> None:
    assert upper_bounds(resumed) == upper_bounds(undisturbed.path)
    for name in ("policy/kl_coef", "entropy/coef"):
        assert values_of(resumed, name) == values_of(undisturbed.path, name)
    assert table_hashes(resumed) == table_hashes(undisturbed.path)


def probe_scores(folder: Path) -> torch.Tensor:
    """What a stored model says of each token of a fixed probe."""
    return scores_of(load_causal_lm(folder))


def scores_of(model: PreTrainedModel) -> torch.Tensor:
    tokens = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        return model(input_ids=tokens).logits.log_softmax(-1)


def reference_scores(checkpoint: Path) -> torch.Tensor:
    """What the reference of a learner that goes on from a checkpoint says of the probe."""
    settings = LearnerSettings(optimizer=OptimizerSettings(schedule=Schedule(learning_rate=1e-3)))
    learner = make_learner(load_causal_lm(checkpoint), settings)
    learner.restore(checkpoint)
    assert learner.reference is not None
    return scores_of(learner.reference.model)


@pytest.mark.case("F92")
def test_the_reference_is_the_start_point_of_its_stage_also_after_a_resume(
    undisturbed: Undisturbed, resumed: Path
) -> None:
    # The start point is base weights and a supervised stage; there are no adapters that could be left out of it.
    base, start = (probe_scores(undisturbed.path / "checkpoints" / name) for name in ("step-000000", "step-000002"))
    assert not torch.equal(base, start)
    assert values_of(undisturbed.path, "policy/kl_ref")[0] == case("F92").expect["kl_at_step_0"]
    for step in ("step-000004", "step-000006"):
        assert torch.equal(reference_scores(resumed / "checkpoints" / step), start)
    assert not torch.equal(probe_scores(resumed / "checkpoints" / "step-000006"), start)
