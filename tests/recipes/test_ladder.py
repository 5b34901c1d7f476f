"""The ladder as a whole: its plans, faults and reports, and which runs a level asks for."""

import json
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from math import prod
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evaluation.gates import judge
from rollwright.evidence import RunFolder
from rollwright.evidence.gates import read_gates
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.climbing import levels_to
from rollwright.recipes.ladder.factorial import signs_of, specs_of
from rollwright.recipes.ladder.faults import FAULTS, fault_named
from rollwright.recipes.ladder.lag.level import load_level
from rollwright.recipes.ladder.level_runs import runs_of
from rollwright.recipes.ladder.mathematics.level_zero import climb_mathematics
from rollwright.recipes.ladder.measures import MEASURES
from rollwright.recipes.ladder.plan import Limit, load_plan
from rollwright.recipes.ladder.recording import record_verdicts
from rollwright.recipes.ladder.report import LadderVerdict, LevelReport, Table, document_of, markdown_of, write_report
from rollwright.recipes.ladder.runs import LadderOrder, LadderRun, last_step
from rollwright.recipes.resolve import recipe_toml
from rollwright.record.gates import Measured
from tests.evidence.runs import START, manifest

PLANNED = (1, 2, 3, 4, 6)
LIMIT = Limit(measure="gain", bound="at_least", limit=0.1, label="I", source="chosen here")


def order(folder: Path = Path("nowhere"), **changes) -> LadderOrder:
    return replace(LadderOrder(folder=folder), **changes)


@pytest.fixture(scope="module")
def of_two() -> tuple[LadderRun, ...]:
    """All runs of level 2."""
    return runs_of(load_plan(2), order(Path("somewhere"))).runs


def verdict(value: float | None, *, low: float | None = None, high: float | None = None) -> LadderVerdict:
    measured = Measured(value=value, low=low, high=high, num_items=20, source="twenty tasks")
    return LadderVerdict(run="main", limit=LIMIT, verdict=judge("gain", LIMIT.as_bound, measured))


def report(*verdicts: LadderVerdict, **changes) -> LevelReport:
    base = LevelReport(level=2, title="Does it learn?", scale="Small.", verdicts=verdicts)
    return replace(base, **changes)


@pytest.mark.parametrize("level", PLANNED)
def test_every_limit_of_a_plan_can_be_measured_and_says_where_it_comes_from(level: int):
    plan = load_plan(level)
    assert plan.number == level
    assert plan.limits
    for limit in plan.limits:
        assert limit.measure in MEASURES
        assert limit.source


def test_the_ladder_has_levels_zero_to_six():
    assert levels_to(None) == (0, 1, 2, 3, 4, 5, 6)
    assert levels_to(3) == (0, 1, 2, 3)


def test_every_fault_of_a_level_with_a_plan_names_a_gate_of_it():
    for fault in FAULTS:
        if fault.level:
            assert fault.gate in [limit.measure for limit in load_plan(fault.level).limits]


def test_a_fault_is_refused_where_its_level_is_another_and_the_nearest_name_is_told():
    with pytest.raises(RecipeError, match="fault length_hack is for level 2, whose gate 'length_high' must fail"):
        fault_named("length_hack", 1)
    with pytest.raises(RecipeError, match="Did you mean length_hack"):
        fault_named("length_hak", 2)


def test_levels_one_and_three_share_the_supervised_run():
    first, third = (
        next(run for run in runs_of(load_plan(level), order()).runs if run.name == "sft") for level in (1, 3)
    )
    assert first.path == third.path
    assert first.resolved.values() == third.resolved.values()


def test_the_runs_of_a_level_start_from_the_last_weights_of_the_one_before(of_two: tuple[LadderRun, ...]):
    warm, main, *_ = of_two
    assert last_step(warm.resolved.recipe) == 220
    model = main.resolved.recipe.model
    assert model.kind == "local"
    assert model.path == "somewhere/letters-tiny-warm-seed0/checkpoints/step-000220"
    assert [stage.kind for stage in main.resolved.recipe.stages] == ["rl"]


def test_level_two_has_three_seeds_and_half_of_all_combinations(of_two: tuple[LadderRun, ...]):
    found = [run.name for run in of_two]
    assert found[:4] == ["warm", "main, seed 0", "main, seed 1", "main, seed 2"]
    assert len(found) == len(set(found)) == 4 + 16


def test_no_two_choices_of_the_factorial_can_be_taken_for_each_other():
    rows = signs_of(5)
    assert len(set(rows)) == 16
    # Of resolution V: columns of one and of two choices are balanced, and no product of two is that of another two.
    columns = {
        chosen: tuple(prod(row[place] for place in chosen) for row in rows)
        for size in (1, 2)
        for chosen in combinations(range(5), size)
    }
    assert all(sum(column) == 0 for column in columns.values())
    assert len(set(columns.values())) == len(columns)


def test_the_runs_of_the_factorial_differ_in_their_choices(of_two: tuple[LadderRun, ...]):
    factorial = load_plan(2).factorial
    assert factorial is not None
    runs = [run for run in of_two if run.name.startswith("factorial")]
    assert len(runs) == len(specs_of(factorial))
    highest = next(run for run in runs if run.name == "factorial ABCDE").resolved.recipe
    assert highest.objective.denominator == "response_mean"
    assert highest.objective.credit.kind == "group_standardized"
    assert (highest.rollout.truncation, highest.rollout.dynamic_sampling) == ("mask", True)
    assert len({tuple(map(str, run.resolved.values().items())) for run in runs}) == 16


def test_methods_without_a_room_are_missing_and_not_run(tmp_path: Path):
    planned = runs_of(load_plan(4), order(tmp_path))
    assert [run.name for run in planned.runs] == ["warm", "terminal broadcast", "repeated states"]
    assert [sentence.partition(":")[0] for sentence in planned.missing] == ["critic", "implicit process reward"]


def test_the_second_verifier_stands_beside_those_of_the_recipe_and_weighs_nothing(
    of_two: tuple[LadderRun, ...],
):
    main = of_two[1].resolved.recipe
    assert [(part.kind, part.weight) for part in main.verifier.parts] == [("world", 1.0), ("custom", 0.0)]


def test_a_fault_strikes_the_main_run_alone_in_a_folder_of_its_own():
    warm, main = runs_of(load_plan(2), order(Path("here"), fault="entropy_collapse")).runs
    assert warm.path == Path("here/letters-tiny-warm-seed0")
    assert main.path == Path("here/fault-entropy_collapse/letters-tiny-main-seed0")
    assert (warm.resolved.recipe.learner.learning_rate, main.resolved.recipe.learner.learning_rate) == (1e-3, 4e-3)


def test_what_a_person_sets_reaches_every_run_that_can_take_it():
    asked = ("model.hidden_size=32", "stages.warm_start.steps=30", "rollout.batch_size=64", "run.steps=7")
    plan = replace(load_plan(2), factorial=None)
    warm, main, *_ = runs_of(plan, order(settings=asked, seed=3)).runs
    assert warm.resolved.recipe.model.kind == "fresh"
    assert (last_step(warm.resolved.recipe), warm.seed, main.seed) == (30, 3, 3)
    assert (main.resolved.recipe.rollout.batch_size, main.resolved.recipe.run.steps) == (64, 7)
    assert "step-000030" in str(main.resolved.values()["model.path"])


def test_the_seed_is_the_ladder_s_to_choose():
    with pytest.raises(RecipeError, match="give --seed"):
        runs_of(load_plan(1), order(settings=("run.seed=4",)))


def test_a_recipe_of_one_s_own_is_run_as_far_as_it_can_be_and_the_rest_is_told(tmp_path: Path):
    planned = runs_of(load_plan(3), order(tmp_path, recipe="arithmetic-tool"))
    assert [run.name for run in planned.runs] == ["sft", "outcome only"]
    assert planned.missing == (
        "tool cost: it sets environment.arguments.call_cost, verifier.success_threshold, of the level's own world",
    )


def test_a_recipe_s_own_gates_and_alarms_are_left_out(tmp_path: Path):
    (run,) = [one for one in runs_of(load_plan(3), order(tmp_path, recipe="arithmetic-tool")).runs if one.name == "sft"]
    assert (run.resolved.recipe.gates, run.resolved.recipe.alarms) == ((), ())
    assert run.recipe == str(tmp_path / "arithmetic-tool-without-gates.toml")


def test_a_recipe_without_demonstrations_has_no_supervised_level(tmp_path: Path):
    text = (Path(__file__).parents[2] / "src/rollwright/recipes/presets/arithmetic-tool.toml").read_text("utf-8")
    head, _, tail = text.partition('[[stages]]\nkind = "supervised"')
    mine = tmp_path / "mine.toml"
    mine.write_text(head + tail.partition("\n\n")[2], encoding="utf-8")
    planned = runs_of(load_plan(1), order(tmp_path, recipe=str(mine)))
    assert planned.runs == ()
    assert "sft: the recipe has no stage of kind 'supervised'" in planned.missing


def test_a_level_passes_only_where_every_gate_did_and_nothing_is_missing():
    good, bad = verdict(0.3, low=0.2, high=0.4), verdict(0.0, low=-0.1, high=0.05)
    unsure, unknown = verdict(0.1, low=0.0, high=0.2), verdict(None)
    assert report(good).outcome == "passed"
    assert report(good, missing=("a critic",)).outcome == "not enough evidence"
    assert report(good, unsure).outcome == report(good, unknown).outcome == "not enough evidence"
    assert report(good, unsure, bad).outcome == "failed"
    assert report().outcome == "not enough evidence"
    assert report(good, bad).failed == ("gain",)


def test_a_report_holds_every_gate_with_its_limit_label_and_source(tmp_path: Path):
    tables = (Table(title="Runs", header=("run",), rows=(("a|b",),)),)
    found = report(verdict(0.3, low=0.2, high=float("inf")), tables=tables, fault="length_hack")
    page = write_report(tmp_path, found).read_text(encoding="utf-8")
    assert page == markdown_of(found)
    assert "a\\|b" in page and "at least 0.1" in page and "chosen here" in page
    assert "The fault `length_hack` was injected" in page
    document = json.loads((tmp_path / "level-2.json").read_text(encoding="utf-8"))
    assert document == json.loads(json.dumps(document_of(found)))
    assert document["verdicts"][0]["verdict"]["measured"]["high"] == "inf"


def test_verdicts_stand_in_the_folder_of_their_run_and_are_written_once(of_two: tuple[LadderRun, ...], tmp_path: Path):
    run = replace(of_two[1], path=tmp_path / "run")
    RunFolder.create(run.path, manifest(), recipe_toml(run.resolved.recipe)).close()
    record_verdicts(run, [verdict(0.3, low=0.2, high=0.4)], level=2, at=START)
    (found,) = read_gates(run.path)
    assert (found.purpose, found.step, found.label, found.limit_source) == ("ladder", 24, "I", "chosen here")
    assert found.verdict.outcome == "passed"
    before = (run.path / "gates.json").stat().st_mtime_ns
    record_verdicts(run, [verdict(0.3, low=0.2, high=0.4)], level=2, at=START + timedelta(days=1))
    assert (run.path / "gates.json").stat().st_mtime_ns == before


def test_level_five_says_where_its_limits_come_from():
    assert all(gate.source for gate in load_level().gates)


def test_level_zero_passes_and_writes_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(["ladder", "0", "--runs", str(tmp_path), "--json"]) == 0
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["level"], said["outcome"]) == (0, "passed")
    assert (tmp_path / "level-0.md").exists() and (tmp_path / "level-0.json").exists()


@pytest.mark.slow
def test_level_zero_fails_with_a_wrong_denominator_and_says_by_which_equations():
    found = climb_mathematics(lambda sentence: None, fault="wrong_denominator")
    assert found.failed == ("equations",)
    (equations,) = [one.verdict for one in found.verdicts if one.verdict.gate == "equations"]
    assert "token mean" in equations.measured.source or "response mean" in equations.measured.source
