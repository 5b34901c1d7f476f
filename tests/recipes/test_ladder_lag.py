"""The arms of level 5, what is compared, and the gates, by hand-made figures."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import CommitKind, CommitRows, RunFolder
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.lag.arms import (
    Arm,
    ClimbOrder,
    arms_of,
    complete,
    final_commit,
    first_rl_step,
    last_step,
)
from rollwright.recipes.ladder.lag.climb import report_of
from rollwright.recipes.ladder.lag.comparison import Comparison, compare
from rollwright.recipes.ladder.lag.figures import ArmFigures, CurvePoint, Score, Staleness, score_of
from rollwright.recipes.ladder.lag.gates import highest_unfailed, judge
from rollwright.recipes.ladder.lag.level import FinalProtocol, Gate, Measure, load_level
from rollwright.recipes.ladder.lag.measured import MeasuredRow, Spread, largest, mean, spread, total
from rollwright.recipes.resolve import recipe_toml
from rollwright.record.gates import GateVerdict
from rollwright.statistics import Interval, clustered_interval, wilson_interval
from tests.evidence.runs import START, manifest, scored_trajectory

FIVE = load_level()
TASKS = [f"t{number}" for number in range(20)]
LADDER = Path(__file__).parents[2] / "docs" / "proofs" / "ladder.jsonl"


def order(folder: Path = Path("nowhere"), **changes) -> ClimbOrder:
    base = ClimbOrder(level=FIVE, recipe=None, values=(), settings=(), seed=0, updates=None, tasks=None, folder=folder)
    return replace(base, **changes)


def gate(measure: Measure) -> Gate:
    return next(g for g in FIVE.gates if g.measure == measure)


def judged(asked: Gate, comparison: Comparison) -> GateVerdict:
    return judge(asked, comparison).verdict


def staleness(**changes) -> Staleness:
    fresh = Staleness(
        lag_mean=0.0,
        lag_max=0.0,
        lag_shares={"0": 1.0},
        weights={"0.5": Spread(mean=1.0, worst=1.0), "0.99": Spread(mean=1.0, worst=1.0)},
        weight_max=1.0,
        weights_held=0.0,
        ess=Spread(mean=1.0, worst=1.0),
        kl=0.0,
        kl_k3=0.0,
        kl_k3_max=0.0,
        mismatch=1e-5,
        probe=1e-5,
        disagreement=0.0,
    )
    return replace(fresh, **changes)


def point(updates: int, share: float, seconds: float) -> CurvePoint:
    """With the interval that an evaluation writes: Wilson's where all tasks came out alike."""
    solved = round(share * len(TASKS))
    if solved in (0, len(TASKS)):
        bounds = wilson_interval(solved, len(TASKS))
    else:
        bounds = clustered_interval(np.array([float(number < solved) for number in range(len(TASKS))]))
    assert bounds is not None
    return CurvePoint(
        updates=updates,
        success=share,
        low=max(0.0, bounds.low),
        high=min(1.0, bounds.high),
        steps_s=updates * seconds,
        clock_s=updates * seconds,
        episodes=128 * updates,
    )


def arm(lag: int, *, curve: Mapping[int, float], seconds: float, solved: int, stale: Staleness | None = None):
    """An arm whose curve has one success or none a task: the first so many tasks are solved; a step takes `seconds`."""
    points = tuple(point(updates, share, seconds) for updates, share in curve.items())
    by_task = {task: float(number < solved) for number, task in enumerate(TASKS)}
    return ArmFigures(
        name=f"lag {lag}",
        value=lag,
        run=f"runs/lag{lag}",
        commit="c" * 40,
        protocol="p" * 64,
        threads={"engine and learner in turns": 1},
        resumed=0,
        updates=points[-1].updates,
        steps_s=points[-1].steps_s,
        clock_s=points[-1].clock_s,
        trained_tokens=1000,
        tokens_per_s=1000 / points[-1].steps_s,
        episodes=points[-1].episodes,
        curve=points,
        final=Score(value=solved / len(TASKS), low=0.0, high=1.0, num_tasks=len(TASKS)),
        by_task=by_task,
        curve_by_task={
            updates: {task: float(number < round(share * len(TASKS))) for number, task in enumerate(TASKS)}
            for updates, share in curve.items()
        },
        staleness=stale or staleness(),
    )


def beside(one: ArmFigures):
    """That arm against a baseline that comes to 0.5 in 30 updates of 2 s."""
    baseline = arm(0, curve={0: 0.0, 10: 0.2, 20: 0.4, 30: 0.5}, seconds=2.0, solved=10)
    (comparison,) = compare([baseline, one])
    return comparison


AS_GOOD = arm(2, curve={0: 0.0, 10: 0.2, 20: 0.4, 30: 0.5}, seconds=1.0, solved=10)


def test_every_measure_of_a_gate_is_asked_by_level_five_and_every_limit_says_where_it_comes_from():
    assert {g.measure for g in FIVE.gates} == set(get_args(Measure))
    assert all(g.source and g.label in ("D", "C", "I") for g in FIVE.gates)
    assert FIVE.axis.values == (0, 1, 2, 4, 8)


def test_the_arms_differ_in_the_lag_alone_and_share_the_correction_of_staleness():
    arms = arms_of(order())
    assert [one.name for one in arms] == ["lag 0", "lag 1", "lag 2", "lag 4", "lag 8"]
    for one in arms[1:]:
        found, due = one.resolved.values(), arms[0].resolved.values()
        assert {key for key in due if found[key] != due[key]} == {"runtime.max_lag"}
    assert {one.resolved.recipe.objective.correction.kind for one in arms} == {"truncated"}
    recipe = arms[0].resolved.recipe
    assert (first_rl_step(recipe), last_step(recipe)) == (221, 280)


def test_what_a_person_asks_for_stands_on_top_of_the_level():
    asked = order(values=(0, 3), settings=("learner.learning_rate=5e-4",), seed=4, updates=20, tasks=50)
    for one in arms_of(asked):
        recipe = one.resolved.recipe
        assert (recipe.learner.learning_rate, recipe.run.seed, recipe.run.steps) == (5e-4, 4, 20)
    assert asked.final == FinalProtocol(tasks=50, samples=FIVE.final.samples)


@pytest.mark.parametrize("values", [(1, 2), (0,), (0, 2, 1), (0, 1, 1)])
def test_values_that_make_no_ladder_are_refused(values):
    with pytest.raises(RecipeError, match="give 0 first"):
        arms_of(order(values=values))


@pytest.mark.parametrize("setting", ["runtime.max_lag=3", "run.seed=2"])
def test_a_setting_that_would_be_overwritten_is_refused(setting):
    with pytest.raises(RecipeError, match=setting.partition("=")[0]):
        arms_of(order(settings=(setting,)))


def test_a_level_that_is_not_built_is_refused_in_a_sentence(capsys):
    assert run_command(["ladder", "7"]) == 2
    assert "the ladder has no level 7; give 0, 1, 2, 3, 4, 5, 6" in capsys.readouterr().err


def test_lags_that_are_no_numbers_are_refused(capsys):
    assert run_command(["ladder", "5", "--only", "--lags", "0,two"]) == 2
    assert "whole numbers" in capsys.readouterr().err


def test_the_way_to_the_target_is_told_in_episodes_and_in_seconds():
    comparison = beside(arm(2, curve={0: 0.0, 10: 0.1, 20: 0.3, 30: 0.4, 40: 0.5}, seconds=1.0, solved=10))
    assert comparison.reached is not None and comparison.reached.updates == 40
    assert comparison.clock_ratio == pytest.approx(40 / 60)
    assert comparison.samples_ratio == pytest.approx(40 / 30)
    assert comparison.speed_ratio == pytest.approx(2.0)


def test_a_difference_is_paired_by_task():
    # 10 and 12 of 20 tasks, the same 10 among them: deltas of 1 twice and 0 eighteen times.
    difference = beside(replace(AS_GOOD, by_task={t: float(n < 12) for n, t in enumerate(TASKS)})).difference
    deviation = math.sqrt((2 * 0.9**2 + 18 * 0.1**2) / 19)
    half = 1.959964 * deviation / math.sqrt(20)
    assert difference.value == pytest.approx(0.1)
    assert (difference.low, difference.high) == (pytest.approx(0.1 - half), pytest.approx(0.1 + half))


def test_arms_that_were_scored_on_other_tasks_are_not_compared():
    with pytest.raises(LadderError, match="different tasks"):
        beside(replace(AS_GOOD, by_task={task: 1.0 for task in TASKS[1:]}))


def differing(*deltas: float):
    """A comparison whose final success differs from the baseline's by these amounts, task by task."""
    known = {task: float(number < 10) for number, task in enumerate(TASKS)}
    changed = {task: known[task] + deltas[number % len(deltas)] for number, task in enumerate(TASKS)}
    return beside(replace(AS_GOOD, by_task=changed))


@pytest.mark.parametrize(
    ("deltas", "outcome"),
    [
        ((0.05, -0.05), "passed"),
        ((-0.08, -0.06), "passed"),
        ((-0.5, -0.4), "failed"),
        ((0.5, -0.5), "not enough evidence"),
    ],
)
def test_quality_is_judged_by_the_whole_interval(deltas, outcome):
    verdict = judged(gate("quality"), differing(*deltas))
    assert verdict.outcome == outcome
    assert verdict.measured.low is not None and verdict.measured.high is not None
    assert f"[{verdict.measured.low:.3g}, {verdict.measured.high:.3g}]" in verdict.because


def unlearned(*, first: float, last: float):
    """A faster arm beside a baseline that goes from one success to another, both alike in their tasks."""
    curve = {0: first, 10: last, 20: last, 30: last}
    solved = round(last * len(TASKS))
    (comparison,) = compare(
        [arm(0, curve=curve, seconds=2.0, solved=solved), arm(1, curve=curve, seconds=0.3, solved=solved)]
    )
    return comparison


@pytest.mark.parametrize("measure", ["quality", "clock"])
@pytest.mark.parametrize(
    ("first", "last"),
    [
        (0.0, 0.0),
        (0.5, 0.5),
        (0.5, 0.3),
        # 6 of 20 against 10 of 20: [0.09, 0.51] and [0.28, 0.72] overlap.
        (0.3, 0.5),
    ],
)
def test_nothing_is_passed_beside_a_synchronous_run_that_learned_nothing(measure, first, last):
    verdict = judged(gate(measure), unlearned(first=first, last=last))
    assert verdict.outcome == "not enough evidence"
    assert verdict.measured.source.startswith("the synchronous run learned nothing")
    assert f"{first:.3f} [" in verdict.because and f"{last:.3f} [" in verdict.because


def test_a_synchronous_run_without_intervals_has_not_been_seen_to_learn():
    baseline = arm(0, curve={0: 0.0, 30: 0.5}, seconds=2.0, solved=10)
    blank = replace(baseline, curve=tuple(replace(one, low=None, high=None) for one in baseline.curve))
    (comparison,) = compare([blank, AS_GOOD])
    assert judged(gate("quality"), comparison).outcome == "not enough evidence"
    assert "0.500 (no interval) after 30" in judged(gate("clock"), comparison).because


# Wilson's upper bound of 0 of n is z² / (n + z²): 0.1611 of 20 tasks.
APART = 1.959964**2 / (20 + 1.959964**2)


@pytest.mark.parametrize("delta", [0.0, -0.09, -1.0, 1.0])
def test_differences_that_are_all_equal_are_no_certainty(delta):
    # So large a share of tasks may differ otherwise, by -1 to 1.
    difference = beside(replace(AS_GOOD, by_task={t: float(n < 10) + delta for n, t in enumerate(TASKS)})).difference
    assert difference.value == pytest.approx(delta)
    assert difference.low == pytest.approx((1 - APART) * delta - APART)
    assert difference.high == pytest.approx((1 - APART) * delta + APART)


def test_equal_differences_pass_only_where_the_tasks_are_many():
    assert judged(gate("quality"), differing(0.0)).outcome == "not enough evidence"
    assert judged(gate("quality"), differing(-0.5)).outcome == "failed"
    many = {f"t{number}": float(number < 200) for number in range(400)}
    baseline = replace(arm(0, curve={0: 0.0, 30: 0.5}, seconds=2.0, solved=10), by_task=many)
    (comparison,) = compare([baseline, replace(AS_GOOD, by_task=many)])
    verdict = judged(gate("quality"), comparison)
    assert (verdict.outcome, verdict.measured.low) == ("passed", pytest.approx(-0.0095, abs=1e-4))


def test_curves_that_end_with_all_tasks_solved_do_not_settle_the_clock():
    curve = {0: 0.0, 10: 0.2, 20: 0.4, 30: 1.0}
    baseline = arm(0, curve=curve, seconds=2.0, solved=20)
    (comparison,) = compare([baseline, arm(1, curve=curve, seconds=1.0, solved=20)])
    verdict = judged(gate("clock"), comparison)
    assert (verdict.outcome, verdict.measured.value) == ("not enough evidence", pytest.approx(0.5))


def test_an_arm_far_below_a_target_of_all_tasks_fails_the_clock():
    baseline = arm(0, curve={0: 0.0, 10: 0.2, 30: 1.0}, seconds=2.0, solved=20)
    (comparison,) = compare([baseline, arm(1, curve={0: 0.0, 10: 0.2, 30: 0.3}, seconds=1.0, solved=6)])
    assert judged(gate("clock"), comparison).outcome == "failed"


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_final_success_of_tasks_that_came_out_alike_has_wilsons_interval(share: float):
    score = score_of({task: share for task in TASKS})
    assert score.value == share
    assert (score.low, score.high) == pytest.approx((0.0, APART) if share == 0.0 else (1.0 - APART, 1.0))


def test_the_recorded_ladder_is_judged_as_it_was():
    recorded, *_ = [json.loads(line) for line in LADDER.read_text(encoding="utf-8").splitlines()]
    curve = recorded["figures"]["arm"][0]["curve"]
    synchronous = tuple(CurvePoint(**one) for one in curve)
    baseline = replace(arm(0, curve={0: 0.0, 30: 0.5}, seconds=2.0, solved=10), curve=synchronous)
    assert (synchronous[0].success, synchronous[-1].success) == (0.245, 0.585)
    gates = [one for one in recorded["figures"]["gate"] if one["gate"] in ("quality", "clock")]
    told = {one["arm"]: one for one in recorded["figures"]["comparison"]}
    assert len(gates) == 8
    for one in gates:
        found = told[one["arm"]]
        interval = found["clock_interval"] | {end: float(found["clock_interval"][end]) for end in ("low", "high")}
        comparison = Comparison(
            arm=AS_GOOD,
            baseline=baseline,
            difference=Score(**found["difference"]),
            target=found["target"],
            reached=None if found["reached"] is None else CurvePoint(**found["reached"]),
            baseline_reached=CurvePoint(**found["baseline_reached"]),
            clock_interval=Interval(**interval),
        )
        assert judged(gate(one["gate"]), comparison).outcome == one["outcome"]


def test_a_run_that_is_sooner_whatever_tasks_were_drawn_passes_the_clock():
    verdict = judged(gate("clock"), beside(AS_GOOD))
    assert (verdict.outcome, verdict.measured.value) == ("passed", pytest.approx(0.5))
    assert verdict.measured.high is not None and verdict.measured.high <= 1.0


def test_a_run_that_is_later_whatever_tasks_were_drawn_fails_the_clock():
    assert judged(gate("clock"), beside(replace_seconds(3.0))).outcome == "failed"


def test_a_run_that_never_comes_near_fails_the_clock_and_one_that_nearly_did_is_not_enough_evidence():
    far = judged(gate("clock"), beside(arm(8, curve={0: 0.0, 10: 0.0, 20: 0.0, 30: 0.0}, seconds=1.0, solved=10)))
    assert far.outcome == "failed" and far.measured.value == far.measured.high == math.inf
    assert "never reached in 30 updates" in far.measured.source
    # One task short of the target: some resamples leave that task out.
    near = judged(gate("clock"), beside(arm(4, curve={0: 0.0, 10: 0.2, 20: 0.4, 30: 0.45}, seconds=1.0, solved=10)))
    assert near.outcome == "not enough evidence"


def replace_seconds(seconds: float) -> ArmFigures:
    return arm(2, curve={0: 0.0, 10: 0.2, 20: 0.4, 30: 0.5}, seconds=seconds, solved=10)


@pytest.mark.parametrize(
    ("measure", "good", "bad"),
    [
        ("kl", {"kl_k3": 0.05}, {"kl_k3": 0.0501}),
        ("ess", {"ess": Spread(mean=0.9, worst=0.5)}, {"ess": Spread(mean=0.9, worst=0.49)}),
        ("weights", {"weights_held": 0.01}, {"weights_held": 0.0101}),
        ("mismatch", {"mismatch": 1e-4}, {"mismatch": 2e-4}),
        ("probe", {"probe": 1e-4}, {"probe": 2e-4}),
        ("disagreement", {"disagreement": 0.0}, {"disagreement": 0.001}),
    ],
)
def test_a_limit_of_staleness_holds_up_to_its_number_and_no_further(measure, good, bad):
    assert judged(gate(measure), beside(replace(AS_GOOD, staleness=staleness(**good)))).outcome == "passed"
    assert judged(gate(measure), beside(replace(AS_GOOD, staleness=staleness(**bad)))).outcome == "failed"


@pytest.mark.parametrize("measure", ["kl", "weights", "mismatch", "probe", "disagreement"])
def test_what_was_not_measured_is_not_enough_evidence_and_says_why(measure):
    fields = {"kl": "kl_k3", "weights": "weights_held"}
    field = fields[measure] if measure in fields else measure
    verdict = judged(gate(measure), beside(replace(AS_GOOD, staleness=staleness(**{field: None}))))
    assert verdict.outcome == "not enough evidence"
    assert verdict.measured.source.startswith(("no ", "the "))


def test_the_same_number_of_updates_must_take_less_time():
    assert judged(gate("whole"), beside(AS_GOOD)).outcome == "passed"
    assert judged(gate("whole"), beside(replace_seconds(2.1))).outcome == "failed"


def test_the_ladder_ends_at_the_first_lag_with_a_failed_gate():
    baseline = arm(0, curve={0: 0.0, 30: 0.5}, seconds=2.0, solved=10)
    good = [arm(lag, curve={0: 0.0, 30: 0.5}, seconds=1.0, solved=10) for lag in (1, 2, 8)]
    worn = arm(4, curve={0: 0.0, 30: 0.5}, seconds=1.0, solved=10, stale=staleness(kl_k3=0.2))
    report = report_of(FIVE, [baseline, good[0], good[1], worn, good[2]])
    assert report.has_failed
    assert report.highest == 2
    assert [v.gate.measure for v in report.verdicts if v.outcome == "failed"] == ["kl"]
    assert highest_unfailed([v for v in report.verdicts if v.value == 4], 0) == 0


def test_a_report_says_what_makes_its_times_hard_to_compare():
    baseline = arm(0, curve={0: 0.0, 30: 0.5}, seconds=2.0, solved=10)
    other = replace(AS_GOOD, commit="d" * 40, resumed=1, threads={"engine": 1, "learner": 1})
    notes = " ".join(report_of(FIVE, [baseline, other]).notes)
    assert "different code" in notes and "gone on with 1 times" in notes and "threads differ" in notes


def test_a_metric_is_averaged_by_its_items_and_rows_of_other_labels_are_left_alone():
    rows = [
        MeasuredRow(step=1, name="kl", labels={}, value=1.0, num_items=1),
        MeasuredRow(step=2, name="kl", labels={}, value=4.0, num_items=2),
        MeasuredRow(step=2, name="kl", labels={}, value=None, num_items=9),
        MeasuredRow(step=2, name="kl", labels={"action": "stop"}, value=100.0, num_items=1),
    ]
    assert (mean(rows, "kl"), total(rows, "kl"), largest(rows, "kl")) == (3.0, 5.0, 4.0)
    assert spread(rows, "kl", min) == Spread(mean=3.0, worst=1.0)
    assert (mean(rows, "other"), largest(rows, "other")) == (None, None)


class Told(Exception):
    """Ends a climb before its first command."""


def tell(sentence: str) -> None:
    raise Told(sentence)


def held_out(number: int, step: int, *, kind: CommitKind = "evaluation") -> CommitRows:
    """Two held-out tasks after a step, as the commit of that number."""
    groups = [1_000_000 * number + place for place in range(2)]
    tries = [scored_trajectory(group_id=group, slot=0, purpose="evaluation") for group in groups]
    return CommitRows(kind=kind, step=step, trajectories=tries)


def saved(folder: RunFolder, step: int) -> None:
    """A step with its checkpoint."""
    commit = folder.commit(CommitRows(kind="step", step=step), at=START)
    with folder.writing_checkpoint(commit) as path:
        (path / "weights").write_bytes(b"w")


@pytest.fixture
def cut_short(tmp_path: Path) -> Arm:
    """An arm of one step of RL that ended with a diagnosis: the causes are committed, and the step was not trained."""
    settings = ('stages=[{kind="rl", name="rl"}]', "learner.warmup_updates=0")
    arm = arms_of(order(tmp_path, updates=1, settings=settings))[0]
    with RunFolder.create(arm.path, manifest(), recipe_toml(arm.resolved.recipe)) as folder:
        saved(folder, 0)
        folder.commit(CommitRows(kind="step", step=1, trajectories=[scored_trajectory(group_id=1, slot=0)]), at=START)
    return arm


def test_a_step_that_has_no_checkpoint_does_not_end_an_arm(cut_short: Arm):
    with pytest.raises(Told, match=f"lag 0: goes on after step 0 in {cut_short.path}"):
        complete(cut_short, FinalProtocol(tasks=2, samples=1), Commands(), tell)


def test_an_evaluation_of_an_older_step_is_no_final_one_and_that_of_the_last_step_ends_an_arm(cut_short: Arm):
    due = FinalProtocol(tasks=2, samples=1)
    with RunFolder.open(cut_short.path, "write") as folder:
        folder.commit(held_out(3, 0), at=START)
        assert final_commit(cut_short, due) is None
        saved(folder, 1)
        folder.commit(held_out(5, 1), at=START)
    complete(cut_short, due, Commands(), tell)
    assert final_commit(cut_short, due) == 5


def test_a_folder_with_another_run_is_refused_and_says_what_differs(tmp_path: Path):
    one, other = (arms_of(order(tmp_path, updates=updates))[0] for updates in (20, 30))
    RunFolder.create(one.path, manifest(), recipe_toml(other.resolved.recipe)).close()
    with pytest.raises(RecipeError, match=r"run\.steps is 30 there and 20 here"):
        complete(one, FIVE.final, Commands(), lambda sentence: None)
