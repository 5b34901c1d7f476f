"""The deterministic mode, bit for bit: two runs, and a run that was killed at any moments and resumed."""

import random
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollwright.evidence import StoredRun, content_hash, table_hashes
from rollwright.learner.dense import Activations
from rollwright.recipes.build.learner import stage_settings
from rollwright.recipes.build.machine import code_commit
from rollwright.recipes.runs import TrainOrder, train_run
from tests.end_to_end.children import start_command
from tests.end_to_end.proofs import Proofs, conditions_of
from tests.end_to_end.small import RECIPE, Listener, arguments, small

SETTINGS = ("run.steps=4", "evaluation.every=2", "stages.warm_start.steps=4")
KILLS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisturbed:
    """A run that nothing disturbed."""

    path: Path
    content_hash: str
    seconds: float


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    path = tmp_path_factory.mktemp("determinism") / "undisturbed"
    began = time.monotonic()
    result = train_run(
        TrainOrder(resolved=small(*SETTINGS), run_dir=path, source=None, is_rollouts_only=False), Listener()
    )
    assert result.content_hash == content_hash(path)
    return Undisturbed(path=path, content_hash=result.content_hash, seconds=time.monotonic() - began)


def test_two_runs_are_equal_in_every_table(undisturbed: Undisturbed, tmp_path: Path) -> None:
    child = start_command(["train", RECIPE, "--json", "--run-dir", tmp_path / "again", *arguments(*SETTINGS)], tmp_path)
    assert child.ended().last["content_hash"] == undisturbed.content_hash
    assert table_hashes(tmp_path / "again") == table_hashes(undisturbed.path)


def test_layers_computed_again_in_the_backward_pass_are_the_same_run(undisturbed: Undisturbed, tmp_path: Path) -> None:
    resolved = small(*SETTINGS, "learner.activations=recomputed")
    settings = [stage_settings(stage, resolved.recipe) for stage in resolved.recipe.stages]
    assert {one.activations for one in settings} == {Activations.RECOMPUTED}
    order = TrainOrder(resolved=resolved, run_dir=tmp_path / "recomputed", source=None, is_rollouts_only=False)
    assert train_run(order, Listener()).content_hash == undisturbed.content_hash


def test_another_seed_is_another_run(undisturbed: Undisturbed, tmp_path: Path) -> None:
    child = start_command(
        ["train", RECIPE, "--json", "--seed", "1", "--run-dir", tmp_path / "other", *arguments(*SETTINGS)], tmp_path
    )
    assert child.ended().last["content_hash"] != undisturbed.content_hash


@pytest.mark.row("S279")
def test_a_run_killed_at_three_random_moments_and_resumed_is_the_same_run(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    chance = random.Random(code_commit())
    run = tmp_path / "killed"
    words = ["train", RECIPE, "--json", "--run-dir", run, *arguments(*SETTINGS)]
    moments: list[float] = []
    for _ in range(KILLS):
        child = start_command(words, tmp_path)
        assert child.wait_for(lambda child=child: child.has_said('"event": "run"'))
        moments.append(chance.uniform(0.0, undisturbed.seconds / KILLS))
        time.sleep(moments[-1])
        child.kill()
        words = ["resume", run, "--json"]
    ended = start_command(words, tmp_path).ended()
    assert ended.code == 0, ended.err
    assert table_hashes(run) == table_hashes(undisturbed.path), f"killed after {moments} seconds"
    assert ended.last["content_hash"] == undisturbed.content_hash
    _assert_each_slot_is_trained_once(run)


PLACES = {
    "first evaluation": lambda run: (run / "manifest.json").exists(),
    "first checkpoint": lambda run: any((run / "checkpoints").glob(".*.partial")),
    "checkpoint of the warm start": lambda run: any((run / "checkpoints").glob(".step-000002*.partial")),
    "shards of an RL step": lambda run: any((run / "receipts").glob(".*.partial")),
    "commit of an RL step": lambda run: any((run / "commits").glob("000006*")),
    "checkpoint of an RL step": lambda run: any((run / "checkpoints").glob(".step-000006*.partial")),
    "last evaluation": lambda run: any((run / "checkpoints").glob("step-000007")),
}


@pytest.mark.row("S279")
@pytest.mark.parametrize("place", ["checkpoint of an RL step", "last evaluation"])
def test_a_run_killed_in_the_middle_of_something_is_the_same_run(
    undisturbed: Undisturbed, tmp_path: Path, place: str
) -> None:
    _kill_and_resume(undisturbed, tmp_path, place)


@pytest.mark.training
@pytest.mark.parametrize("place", sorted(PLACES))
def test_a_run_killed_anywhere_is_the_same_run(undisturbed: Undisturbed, tmp_path: Path, place: str) -> None:
    _kill_and_resume(undisturbed, tmp_path, place)


@pytest.mark.training
def test_the_content_hash_of_a_run_is_kept_with_its_conditions(proofs: Proofs) -> None:
    settings = ("run.steps=3", "learner.warmup_updates=1", "stages.warm_start.steps=20", "evaluation.tasks=40")
    words = [RECIPE, *(word for setting in settings for word in ("--set", setting))]
    command = f"rollwright train {' '.join(words)}"
    figures = proofs.recorded(command, [0])
    if figures is None:
        runs = [proofs.run(f"determinism-{n}", *words, timeout_s=600) for n in range(2)]
        hashes = [ended.last["content_hash"] for _, ended in runs]
        assert hashes[0] == hashes[1]
        figures = {"content_hash": hashes[0], "conditions": conditions_of(runs[0][0])}
        proofs.record(command, [0], figures)
    assert len(figures["content_hash"]) == 64


def _kill_and_resume(undisturbed: Undisturbed, tmp_path: Path, place: str) -> None:
    run = tmp_path / "killed"
    child = start_command(["train", RECIPE, "--json", "--run-dir", run, *arguments(*SETTINGS)], tmp_path)
    assert child.wait_for(lambda: PLACES[place](run)), "the run ended before it came there"
    child.kill()
    assert (run / "manifest.json").exists()
    ended = start_command(["resume", run, "--json"], tmp_path).ended()
    assert ended.code == 0, ended.err
    assert table_hashes(run) == table_hashes(undisturbed.path)
    _assert_each_slot_is_trained_once(run)


def _assert_each_slot_is_trained_once(run: Path) -> None:
    trained = [(row.group_id, row.slot) for row in StoredRun(run).ledger if row.state == "trained"]
    assert len(trained) == len(set(trained)) == 4 * 16
