"""Level 5 of the ladder on real runs: the synchronous one, then one largest lag after the other.

`make prove-ladder` climbs all five arms, half an hour or more on two cores, and records what came of them.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rollwright.evidence import RunFolder, check, writer_of
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import PARITY, Ended, commits_of, rollwright, start, wait_for

RECIPE = "arithmetic-tool"
SMALL = (
    "run.steps=4",
    "rollout.batch_size=16",
    "rollout.group_size=4",
    "rollout.max_turn_tokens=24",
    "evaluation.every=2",
    "evaluation.tasks=8",
    "stages.warm_start.steps=2",
    "stages.warm_start.batch_size=8",
    "stages.warm_start.schedule=linear",
    "stages.warm_start.warmup_updates=0",
    "learner.warmup_updates=0",
    "model.hidden_size=32",
    "model.num_layers=1",
    "model.num_heads=1",
    "model.num_kv_heads=1",
    "model.intermediate_size=64",
    "model.vocabulary_tokens=300",
    "model.tokenizer_texts=50",
    "tasks.num_train=64",
    "tasks.num_held_out=32",
    PARITY,
)
COMMAND = "rollwright ladder 5"
LAGS = (0, 1, 2, 4, 8)


def climb(folder: Path, *words: str, timeout_s: float = 600.0) -> Ended:
    return rollwright("ladder", "5", "--runs", folder, "--json", *words, timeout_s=timeout_s)


def small_climb(folder: Path) -> Ended:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    return climb(folder, "--recipe", RECIPE, "--lags", "0,2", "--tasks", "16", *settings)


def events(ended: Ended, name: str) -> list[dict]:
    return [line for line in ended.lines if line.get("event") == name]


@pytest.mark.training
def test_two_arms_are_trained_measured_and_judged_and_a_second_climb_only_reads_them(tmp_path: Path) -> None:
    first = small_climb(tmp_path)
    synchronous, lagging = events(first, "arm")
    assert [arm["name"] for arm in (synchronous, lagging)] == ["lag 0", "lag 2"]
    assert synchronous["staleness"]["lag_max"] == 0 < lagging["staleness"]["lag_max"] <= 2
    assert sum(lagging["staleness"]["lag_shares"].values()) == pytest.approx(1.0)
    assert synchronous["staleness"]["weight_max"] == pytest.approx(1.0, abs=1e-4)
    assert [point["updates"] for point in lagging["curve"]] == [0, 2, 4]
    for arm in (synchronous, lagging):
        assert arm["final"]["num_tasks"] == 16
        assert 0 < arm["steps_s"] <= arm["clock_s"]
        assert arm["curve"][-1]["episodes"] >= 4 * 16
        assert arm["staleness"]["probe"] < 1e-3
        assert check(Path(arm["run"])).is_sound
    gates = {line["gate"]: line["outcome"] for line in events(first, "gate")}
    assert gates["mismatch"] == gates["probe"] == "passed"
    assert gates["disagreement"] == "not enough evidence"
    assert first.code == int("failed" in gates.values())

    before = sorted(path.name for path in tmp_path.glob("*/commits/*"))
    again = small_climb(tmp_path)
    assert again.code == first.code
    assert [line for line in again.lines if line.get("event") == "warning"] == []
    assert again.last == first.last
    assert sorted(path.name for path in tmp_path.glob("*/commits/*")) == before


@pytest.mark.training
def test_a_ladder_that_is_ended_ends_the_run_of_its_arm_which_saves_and_frees_its_folder(tmp_path: Path) -> None:
    settings = [word for setting in SMALL for word in ("--set", setting)]
    process = start("ladder", "5", "--runs", tmp_path, "--json", "--recipe", RECIPE, "--lags", "0,2", *settings)
    arm = tmp_path / "arithmetic-tool-lag0-seed0"
    wait_for(process, lambda: len(commits_of(arm)) > 0)
    process.terminate()
    process.communicate(timeout=120)
    assert process.returncode == 130
    assert writer_of(arm) is None
    assert RunFolder.open(arm).newest_checkpoint().chosen is not None


@pytest.mark.row("S205")
@pytest.mark.slow
@pytest.mark.training
def test_at_small_lags_the_quality_of_the_synchronous_run_is_held_and_every_limit_of_staleness(proofs: Proofs) -> None:
    figures: Mapping[str, Any] | None = proofs.recorded(COMMAND, [0])
    if figures is None:
        ended = climb(proofs.folder / "ladder", timeout_s=3 * 3600)
        assert ended.code in (0, 1), ended.err
        figures = {name: events(ended, name) for name in ("arm", "comparison", "gate", "level")}
        figures["arm"] = [{key: value for key, value in arm.items() if key != "run"} for arm in figures["arm"]]
        proofs.record(COMMAND, [0], figures)
    assert tuple(arm["value"] for arm in figures["arm"]) == LAGS
    assert all(arm["curve"][0]["high"] < arm["final"]["low"] for arm in figures["arm"])
    failed = {(gate["value"], gate["gate"]) for gate in figures["gate"] if gate["outcome"] == "failed"}
    # How fast an arm was stands in the record: it depends on what else the machine did.
    assert {(lag, measure) for lag, measure in failed if lag <= 2 and measure not in ("clock", "whole")} == set()
