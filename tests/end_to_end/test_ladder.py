"""The ladder on real runs: sound levels pass, each fault fails its gate, and a ladder that is killed leaves nothing.

`make prove-ladder` climbs level 5 with all its arms, half an hour or more on two cores, and records what came of them.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rollwright.evidence import RunFolder, check, writer_of
from rollwright.recipes.ladder.commands import open_commands
from rollwright.recipes.ladder.faults import FAULTS, LadderFault
from rollwright.recipes.ladder.level_runs import climb_runs
from rollwright.recipes.ladder.plan import load_plan
from rollwright.recipes.ladder.report import LevelReport
from rollwright.recipes.ladder.runs import LadderOrder
from tests.end_to_end.proofs import Proofs
from tests.end_to_end.small import PARITY, Ended, commits_of, kill, rollwright, start, wait_for

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
TURN = ("run.steps=20", "evaluation.every=20")
"""Of level 2: as much as learns within a minute, behind its own warm start. Its 200 tasks are the fewest of which equal
outcomes are evidence for 0.98."""
TOOL = ("evaluation.tasks=60", "evaluation.samples=1", "stages.warm_start.steps=60", "stages.warm_start.batch_size=32")
"""Of level 1: what the gate on observations needs is a call with its result, not skill."""
COMMAND = "rollwright ladder 5"
LAGS = (0, 1, 2, 4, 8)


def settings(*values: str) -> list[str]:
    return [word for value in values for word in ("--set", value)]


def climb(folder: Path, *words: str, timeout_s: float = 600.0) -> Ended:
    return rollwright("ladder", "5", "--only", "--runs", folder, "--json", *words, timeout_s=timeout_s)


def small_climb(folder: Path) -> Ended:
    return climb(folder, "--recipe", RECIPE, "--lags", "0,2", "--tasks", "16", *settings(*SMALL))


def sound(level: int, folder: Path, values: Sequence[str]) -> LevelReport:
    """The main run of a level, with one seed and nothing beside it."""
    plan = load_plan(level)
    runs = tuple(replace(spec, seeds=(0,)) for spec in plan.runs if spec.role != "compared")
    limits = tuple(limit for limit in plan.limits if limit.measure != "seeds")
    order = LadderOrder(folder=folder, settings=tuple(values), at_once=2)
    with open_commands() as commands:
        return climb_runs(
            replace(plan, runs=runs, limits=limits, factorial=None), order, commands, lambda sentence: None
        )


def outcome(report: LevelReport, gate: str) -> str:
    (found,) = [one.verdict.outcome for one in report.verdicts if one.verdict.gate == gate]
    return found


def injected(fault: LadderFault, folder: Path, values: Sequence[str]) -> Ended:
    words = ("ladder", str(fault.level), "--fault", fault.name, "--runs", folder, "--json")
    return rollwright(*words, *settings(*values), timeout_s=900)


def failed(ended: Ended) -> set[str]:
    (level,) = [line for line in ended.lines if line.get("event") == "level"]
    return {one["verdict"]["gate"] for one in level["verdicts"] if one["verdict"]["outcome"] == "failed"}


@pytest.fixture(scope="module")
def one_turn(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LevelReport]:
    """Level 2, sound; its warm start is what the faults start from."""
    folder = tmp_path_factory.mktemp("one-turn")
    return folder, sound(2, folder, TURN)


@pytest.mark.training
def test_a_sound_level_of_one_turn_passes_every_gate(one_turn: tuple[Path, LevelReport]) -> None:
    folder, report = one_turn
    assert report.outcome == "passed", report.failed
    assert all(check(path).is_sound for path in folder.glob("letters-tiny-*-seed0"))


@pytest.mark.training
@pytest.mark.parametrize("fault", [one for one in FAULTS if one.level == 2], ids=lambda fault: fault.name)
def test_a_level_of_one_turn_fails_at_the_gate_of_the_fault(
    fault: LadderFault, one_turn: tuple[Path, LevelReport]
) -> None:
    folder, report = one_turn
    assert outcome(report, fault.gate) == "passed"
    before = sorted(path.name for path in folder.glob("letters-tiny-warm-seed0/commits/*"))
    ended = injected(fault, folder, TURN)
    assert (ended.code, fault.gate in failed(ended)) == (1, True), ended.err
    assert sorted(path.name for path in folder.glob("letters-tiny-warm-seed0/commits/*")) == before


@pytest.mark.training
def test_what_tools_said_is_found_out_where_it_is_trained_and_only_there(tmp_path: Path) -> None:
    (fault,) = [one for one in FAULTS if one.name == "tool_output_trained"]
    report = sound(1, tmp_path, TOOL)
    assert outcome(report, "observations") == outcome(report, "audit") == "passed"
    ended = injected(fault, tmp_path, TOOL)
    assert (ended.code, "observations" in failed(ended)) == (1, True), ended.err


@pytest.mark.training
def test_a_ladder_that_is_killed_takes_its_runs_along_and_the_next_one_goes_on(tmp_path: Path) -> None:
    values = ("run.steps=4", "evaluation.every=4", "evaluation.tasks=8", "stages.warm_start.steps=60")
    words = ("ladder", "1", "--only", "--runs", tmp_path, "--json", *settings(*values))
    process = start(*words)
    run = tmp_path / "one-tool-tiny-sft-seed0"
    wait_for(process, lambda: len(commits_of(run)) > 25)
    kill(process)
    wait_until_free(run)
    at = len(commits_of(run))
    assert 25 < at < 61
    ended = rollwright(*words, timeout_s=600)
    assert any("goes on after step" in line.get("text", "") for line in ended.lines), ended.out
    assert len(commits_of(run)) == 61


def wait_until_free(run: Path) -> None:
    """Until nobody writes the folder: its writer was killed with the ladder."""
    end = time.monotonic() + 60
    while writer_of(run) is not None:
        assert time.monotonic() < end, "the run goes on without its ladder"
        time.sleep(0.005)


@pytest.mark.training
def test_two_arms_are_trained_measured_and_judged_and_a_second_climb_only_reads_them(tmp_path: Path) -> None:
    first = small_climb(tmp_path)
    level = first.last
    assert level["level"] == 5
    assert {one["run"] for one in level["verdicts"]} == {"lag 2"}
    assert [one["name"] for one in level["runs"]] == ["lag 0", "lag 2"]
    for one in level["runs"]:
        assert check(tmp_path / one["folder"]).is_sound
    gates = {one["verdict"]["gate"]: one["verdict"]["outcome"] for one in level["verdicts"]}
    assert gates["mismatch"] == gates["probe"] == "passed"
    assert gates["disagreement"] == "not enough evidence"
    assert first.code == 1  # not enough evidence is no pass

    before = sorted(path.name for path in tmp_path.glob("*/commits/*"))
    again = small_climb(tmp_path)
    assert again.code == first.code
    assert [line for line in again.lines if line.get("event") == "warning"] == []
    assert {**again.last, "seconds": 0} == {**first.last, "seconds": 0}
    assert sorted(path.name for path in tmp_path.glob("*/commits/*")) == before


@pytest.mark.training
def test_a_ladder_that_is_ended_ends_the_run_of_its_arm_which_saves_and_frees_its_folder(tmp_path: Path) -> None:
    words = ("--only", "--runs", tmp_path, "--json", "--recipe", RECIPE, "--lags", "0,2", *settings(*SMALL))
    process = start("ladder", "5", *words)
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
        figures = ended.last
        proofs.record(COMMAND, [0], figures)
    assert tuple(sorted({one["run"] for one in figures["verdicts"]})) == ("lag 1", "lag 2", "lag 4", "lag 8")
    failures = {
        (one["run"], one["verdict"]["gate"]) for one in figures["verdicts"] if one["verdict"]["outcome"] == "failed"
    }
    # How fast an arm was stands in the record: it depends on what else the machine did.
    assert {
        (run, gate) for run, gate in failures if run in ("lag 1", "lag 2") and gate not in ("clock", "whole")
    } == set()
