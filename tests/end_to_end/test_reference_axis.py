"""The distance to the first weights of the RL stage is an axis of every run, and changes nothing of it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from rollwright.evidence import StoredRun, table_hashes
from rollwright.recipes.runs import TrainOrder, train_run
from rollwright.record import Metric
from rollwright.record.tables import is_measured_metric
from tests.end_to_end.small import Listener, small

SETTINGS = ("run.steps=3", "evaluation.every=3", "evaluation.tasks=4", "stages.warm_start.steps=2")
OF_THE_AXIS = {"policy/kl_ref", "policy/kl_ref_sqrt", "mask/k3_clamped"}
COSTS = {"time/reference", "memory/reference"}


def trained(path: Path, *settings: str) -> Path:
    order = TrainOrder(resolved=small(*SETTINGS, *settings), run_dir=path, source=None, is_rollouts_only=False)
    train_run(order, Listener())
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[int, Path]:
    folder = tmp_path_factory.mktemp("axis")
    return {every: trained(folder / str(every), f"evidence.reference_every={every}") for every in (0, 1, 3)}


def metrics(run: Path) -> list[Metric]:
    return [m for step in range(1, 6) for m in StoredRun(run).metrics(step)]


def numbers(run: Path) -> list[Metric]:
    return [m for m in metrics(run) if not is_measured_metric(m.name, m.unit)]


def test_measuring_it_changes_no_token_no_loss_no_receipt_and_no_weight(runs: Mapping[int, Path]) -> None:
    without, with_it = (dict(table_hashes(runs[every])) for every in (0, 1))
    assert without.pop("metrics") != with_it.pop("metrics")
    assert without == with_it
    left, right = (load_file(sorted(runs[e].glob("checkpoints/step-*/model.safetensors"))[-1]) for e in (0, 1))
    assert left.keys() == right.keys()
    assert all(left[name].tobytes() == right[name].tobytes() for name in left)


def test_no_other_metric_differs(runs: Mapping[int, Path]) -> None:
    left, right = (
        [(m.step, m.update, m.name, m.labels, m.value) for m in numbers(runs[every]) if m.name not in OF_THE_AXIS]
        for every in (0, 1)
    )
    assert left == right


def test_the_distance_begins_at_zero_and_grows_with_the_updates(runs: Mapping[int, Path]) -> None:
    kl = {m.step: m.value for m in numbers(runs[1]) if m.name == "policy/kl_ref" and m.labels == {"model": "policy"}}
    assert kl[1] is None and kl[2] is None, "the warm start has no reference"
    assert kl[3] == pytest.approx(0.0, abs=1e-12), "float32 rounds the same weights differently in other cuts"
    assert kl[4] is not None and kl[5] is not None and 0.0 < kl[4] < kl[5]
    roots = {m.step: m.value for m in numbers(runs[1]) if m.name == "policy/kl_ref_sqrt"}
    assert roots[5] == pytest.approx(kl[5] ** 0.5)


def test_only_the_steps_that_were_asked_for_pay_for_it(runs: Mapping[int, Path]) -> None:
    steps = {e: {m.step for m in metrics(runs[e]) if m.name in COSTS} for e in runs}
    assert steps == {0: set(), 1: {3, 4, 5}, 3: {3, 5}}
    assert {m.step for m in numbers(runs[0]) if m.name == "policy/kl_ref" and m.value is not None} == set()


def test_its_memory_is_that_of_the_frozen_weights(runs: Mapping[int, Path]) -> None:
    said = next(m.value for m in metrics(runs[1]) if m.name == "memory/reference")
    weights = load_file(sorted(runs[1].glob("checkpoints/step-*/model.safetensors"))[-1])
    assert said == sum(array.nbytes for array in weights.values())


def test_where_the_objective_reads_the_reference_nothing_is_scored_twice(tmp_path: Path) -> None:
    run = trained(tmp_path / "kl", "objective.kl_coefficient=0.01", "evidence.reference_every=1")
    assert not [m for m in metrics(run) if m.name in COSTS]
    assert {m.step for m in metrics(run) if m.name == "policy/kl_ref" and m.value is not None} == {3, 4, 5}
