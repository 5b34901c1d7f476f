"""Verdicts: by value, by interval, and where there is nothing to judge by."""

import subprocess
import sys
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.evaluation.gates import Bound, GateVerdict, Measured, judge
from rollwright.record import RecordError

Side = Literal["at_least", "at_most"]
numbers = st.floats(-1e6, 1e6)
sides = st.sampled_from(("at_least", "at_most"))


def number(value: float | None, low: float | None = None, high: float | None = None) -> Measured:
    level = None if low is None else 0.95
    return Measured(value=value, low=low, high=high, level=level, num_items=7, source="by hand")


def verdict(side: Side, limit: float, measured: Measured) -> GateVerdict:
    return judge("a gate", Bound(side=side, limit=limit), measured)


@given(sides, numbers, numbers)
def test_a_number_without_interval_is_judged_by_its_value(side: Side, limit: float, value: float):
    assert verdict(side, limit, number(value)).outcome == (
        "passed" if (value >= limit if side == "at_least" else value <= limit) else "failed"
    )


@given(sides, numbers, st.tuples(numbers, numbers, numbers).map(sorted))
def test_an_interval_passes_or_fails_whole_or_is_not_enough(side: Side, limit: float, ends: list[float]):
    low, value, high = ends
    outcome = verdict(side, limit, number(value, low, high)).outcome
    within = sum(end >= limit if side == "at_least" else end <= limit for end in (low, high))
    assert outcome == {0: "failed", 1: "not enough evidence", 2: "passed"}[within]


@given(numbers, st.tuples(numbers, numbers, numbers).map(sorted))
def test_negating_number_and_limit_turns_the_side_and_keeps_the_verdict(limit: float, ends: list[float]):
    low, value, high = ends
    plain = verdict("at_least", limit, number(value, low, high))
    turned = verdict("at_most", -limit, number(-value, -high, -low))
    assert plain.outcome == turned.outcome


@given(numbers, numbers, st.tuples(numbers, numbers, numbers).map(sorted))
def test_a_looser_limit_never_makes_a_passed_gate_fail(limit: float, other: float, ends: list[float]):
    low, value, high = ends
    strict, loose = max(limit, other), min(limit, other)
    if verdict("at_least", strict, number(value, low, high)).outcome == "passed":
        assert verdict("at_least", loose, number(value, low, high)).outcome == "passed"


@pytest.mark.parametrize("side", ["at_least", "at_most"])
def test_no_number_is_not_enough_evidence_and_says_why(side: Side):
    none = Measured(value=None, num_items=0, source="no update had importance weights")
    found = verdict(side, 0.0, none)
    assert found.outcome == "not enough evidence"
    assert "no update had importance weights" in found.because


def test_the_limit_itself_is_within():
    assert verdict("at_least", 0.5, number(0.5)).outcome == "passed"
    assert verdict("at_most", 0.5, number(0.5, 0.5, 0.5)).outcome == "passed"


def test_an_infinite_number_is_beyond_every_upper_limit():
    assert verdict("at_most", 1e300, number(float("inf"))).outcome == "failed"


def test_a_verdict_says_number_interval_and_limit():
    assert verdict("at_least", 0.9, number(0.93, 0.88, 0.96)).because == (
        "0.93 [0.88, 0.96] may lie on either side of 0.9; it has to be at least 0.9"
    )
    assert verdict("at_most", 2.0, number(3.5)).because == "3.5 is not at most 2"


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (float("nan"), None, None, "not a number"),
        (0.5, 0.4, None, "both ends"),
        (0.5, None, 0.6, "both ends"),
        (0.5, 0.6, 0.4, "exchange"),
        (None, 0.1, 0.2, "around no number"),
    ],
)
def test_what_cannot_be_a_measured_number_is_refused(
    value: float | None, low: float | None, high: float | None, said: str
):
    with pytest.raises(RecordError, match=said):
        number(value, low, high)


@pytest.mark.parametrize("limit", [float("nan"), float("inf"), float("-inf")])
def test_a_limit_that_bounds_nothing_is_refused(limit: float):
    with pytest.raises(RecordError, match="finite"):
        Bound(side="at_most", limit=limit)


def test_judging_loads_no_torch():
    code = "import sys, rollwright.evaluation.gates; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
