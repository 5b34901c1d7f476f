"""What the gates of a level measure, by hand-made attempts."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rollwright.evaluation.gates import judge
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.factorial import effects_table, signs_of, specs_of
from rollwright.recipes.ladder.intervals import difference, difference_interval, share, share_interval
from rollwright.recipes.ladder.measures import Subject, measure_named
from rollwright.recipes.ladder.plan import RunSpec, load_plan
from rollwright.recipes.ladder.runs import LadderRun
from rollwright.recipes.ladder.tables import tables_of
from rollwright.recipes.ladder.view import Attempt, RunView, Sources
from rollwright.recipes.resolve import resolve
from rollwright.record.gates import Measured
from rollwright.statistics import wilson_interval
from rollwright.tasks.contamination import AskedText

TWO, THREE = load_plan(2), load_plan(3)
RESOLVED = resolve("tiny-agent")
TASKS = 40


def attempt(number: int, **changes) -> Attempt:
    one = Attempt(
        task=f"t{number}",
        source="letters_sort",
        slice_name="sort",
        is_success=False,
        tokens=6,
        reason="model_end",
        calls=0,
        invalid_calls=0,
        verdicts={"format": 1.0, "second": 0.0},
        certainty=0.5,
        imitates=False,
        turns=1,
        repeats=0,
    )
    return replace(one, **changes)


def attempts(solved: int, **changes) -> tuple[Attempt, ...]:
    """The first so many tasks are solved, and the second verifier says the same."""
    return tuple(
        attempt(n, is_success=n < solved, verdicts={"format": 1.0, "second": float(n < solved)}, **changes)
        for n in range(TASKS)
    )


def run(name: str = "main", seed: int = 0) -> LadderRun:
    spec = RunSpec(name=name, role="main", stages="rl")
    return LadderRun(spec=spec, seed=seed, path=Path(name), recipe="tiny-agent", settings=(), resolved=RESOLVED)


def view(before: Sequence[Attempt], after: Sequence[Attempt], **changes) -> RunView:
    one = RunView(
        run=run(),
        before=tuple(before),
        after=tuple(after),
        series={"entropy/sampled": (1.2, 0.4, 0.9), "len/response": (7.0, 6.0), "env/invalid_action": (0.1,) * 10},
        foreign_tokens=0,
        weighed_tokens=1000,
        findings=(),
        trained={"letters_sort": 500, "letters_reverse": 500},
        seconds=10.0,
        outcomes={(0, 0): 3, (0, 8): 1, (3, 8): 4},
        leaked=0,
        asked={"train": (AskedText(id="a", text="sort: a b c"),), "held_out": (AskedText(id="b", text="sort: d e f"),)},
        apart=(100, 0, 100),
        sources=Sources(protocols=("p",), frozen="p", commit="c"),
    )
    return replace(one, **changes)


def measured(name: str, one: RunView, **changes) -> Measured:
    subject = replace(Subject(plan=TWO, view=one, beside=(one,), second="second"), **changes)
    return measure_named(name)(subject)


SOUND = view(attempts(8), attempts(20))


def test_a_gain_is_paired_by_task():
    found = measured("gain", SOUND)
    deltas = np.array([1.0] * 12 + [0.0] * 28)
    bounds = difference_interval(deltas)
    assert bounds is not None
    assert (found.value, found.low, found.high) == (pytest.approx(0.3), bounds.low, bounds.high)


def test_a_verifier_that_accepts_all_is_found_out_by_the_second():
    everything = tuple(replace(one, is_success=True) for one in attempts(10))
    assert measured("agreement", SOUND).value == 1.0
    assert measured("agreement", view(attempts(8), everything)).value == pytest.approx(0.25)
    missing = measured("agreement", SOUND, second="")
    assert missing.value is None and "--second" in missing.source
    assert judge("agreement", TWO.limits[-2].as_bound, missing).outcome == "not enough evidence"


def test_an_action_parses_where_every_call_does_and_the_answer_has_its_form():
    assert measured("parseable", SOUND).value == 1.0
    bent = [replace(one, invalid_calls=1) for one in SOUND.after[:10]]
    formless = [replace(one, verdicts={"format": 0.0}) for one in SOUND.after[10:20]]
    assert measured("parseable", view(SOUND.before, [*bent, *formless, *SOUND.after[20:]])).value == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "due"),
    [("entropy_low", 0.4), ("entropy_high", 1.2), ("length_low", 6.0), ("length_high", 7.0), ("invalid_actions", 0.0)],
)
def test_a_series_is_measured_at_its_extremes(name: str, due: float):
    assert measured(name, SOUND).value == due
    empty = measured(name, replace(SOUND, series={}))
    assert empty.value is None and "update" in empty.source


def test_net_success_counts_every_call_also_of_a_failure():
    asking = view(attempts(8, calls=1), attempts(20, calls=3))
    found = measured("net_gain", asking, plan=THREE)
    assert found.value == pytest.approx(12 / TASKS - 0.1 * 2)


def test_recovery_looks_at_the_slice_with_errors_alone():
    failing = tuple(replace(one, slice_name="error") for one in attempts(0)[:20]) + attempts(TASKS)[20:]
    mended = tuple(replace(one, slice_name="error", is_success=True) for one in attempts(0)[:20]) + attempts(0)[20:]
    found = measured("recovery", view(failing, mended), plan=THREE)
    assert (found.value, found.num_items) == (1.0, 20)
    assert measured("recovery", SOUND, plan=THREE).value is None


def test_tokens_of_others_and_findings_are_counted():
    broken = replace(SOUND, foreign_tokens=7, findings=("policy weight", "other"))
    assert (measured("observations", SOUND).value, measured("observations", broken).value) == (0, 7)
    assert measured("audit", broken).value == 2
    assert "policy weight" in measured("audit", broken).source


def test_a_held_out_question_that_is_trained_on_is_contamination():
    same = {"train": SOUND.asked["held_out"], "held_out": SOUND.asked["held_out"]}
    assert measured("contamination", SOUND).value == 0
    assert measured("contamination", replace(SOUND, asked=same)).value == 1
    assert measured("contamination", replace(SOUND, asked={})).value is None


def test_the_shares_of_a_mixture_are_held_to_equal_ones():
    assert measured("mixture", SOUND).value == 0
    assert measured("mixture", replace(SOUND, trained={"a": 300, "b": 100})).value == pytest.approx(0.25)
    assert measured("mixture", replace(SOUND, trained={"a": 300})).value is None


def test_the_worst_domain_decides():
    half = tuple(replace(one, source="other") for one in attempts(30)[20:])
    worse = tuple(replace(one, source="other", is_success=False) for one in half)
    found = measured("domains", view((*attempts(0)[:20], *half), (*attempts(20)[:20], *worse)))
    assert found.value == pytest.approx(-0.5)
    assert "other" in found.source


def test_numbers_of_another_protocol_than_the_frozen_one_are_noticed():
    assert measured("protocol", SOUND).value == 1
    moved = replace(SOUND, sources=Sources(protocols=("p", "q"), frozen="p", commit="c"))
    assert measured("protocol", moved).value == 2


def test_methods_that_are_missing_are_no_number():
    found = measured("methods", SOUND, missing=("critic: no stage makes its values",))
    assert found.value is None and "critic" in found.source


def test_seeds_are_those_of_the_main_run():
    beside = tuple(replace(SOUND, run=run(seed=seed)) for seed in (0, 1, 1))
    assert measured("seeds", SOUND, beside=beside).value == 2


def test_a_measure_that_there_is_not_is_refused():
    with pytest.raises(RecipeError, match="which is no measure"):
        measure_named("beauty")


def test_shares_that_are_all_alike_have_wilsons_interval_and_differences_theirs():
    bounds = share_interval(np.zeros(20))
    assert bounds is not None
    assert bounds.high == wilson_interval(0, 20).high
    apart = difference_interval(np.full(20, -0.5))
    assert apart is not None
    assert apart.low < -0.5 < apart.high
    assert share_interval(np.zeros(1)) is difference_interval(np.zeros(1)) is None


def test_what_has_no_interval_is_no_number():
    assert share({"a": 1.0}, "one task").value is None
    assert difference({"a": 1.0, "b": 1.0}, {"a": 0.0}, "one in common").value is None


def test_the_effect_of_a_choice_is_found_and_the_others_have_none():
    factorial = TWO.factorial
    assert factorial is not None
    views = [
        replace(SOUND, run=replace(run(), spec=spec), after=attempts(30 if row[1] > 0 else 10))
        for spec, row in zip(specs_of(factorial), signs_of(5), strict=True)
    ]
    table = effects_table(factorial, views)
    values = {row[0]: float(row[-1].split()[0]) for row in table.rows}
    assert values == {"A": 0.0, "B": 0.5, "C": 0.0, "D": 0.0, "E": 0.0}


@pytest.mark.parametrize("level", [1, 2, 3, 4, 6])
def test_every_level_has_tables_whose_rows_fit_their_header(level: int):
    plan = replace(load_plan(level), factorial=None)
    tables = tables_of(plan, [SOUND])
    assert len(tables) > 1
    for table in tables:
        assert table.rows
        assert all(len(row) == len(table.header) for row in table.rows)


def test_outcomes_of_groups_are_told_by_quarter():
    (histogram,) = [one for one in tables_of(replace(TWO, factorial=None), [SOUND]) if "Outcomes" in one.title]
    assert histogram.rows[0][2:] == ("0.75", *["0.00"] * 7, "0.25")
    assert histogram.rows[1][2:] == ("—",) * 9
    assert not math.isnan(SOUND.seconds)
