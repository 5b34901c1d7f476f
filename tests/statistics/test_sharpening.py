"""The sharpening tax: worked numbers, paired resampling, and where it is undefined."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import (
    StatisticsError,
    pass_at_k_of_rate,
    sharpening,
    sharpening_tax,
    sharpening_tax_intervals,
    task_curves,
    task_curves_of_rates,
)
from tests.cases import method_fixture

rates = st.lists(st.floats(0, 1), min_size=1, max_size=5)


@pytest.mark.row("S410")
def test_the_curve_and_both_forms_match_the_worked_numbers():
    fixture = method_fixture("M132.a")
    curves = task_curves_of_rates(fixture.input["p"], fixture.input["K"])
    found = sharpening(curves)
    assert found.curve.tolist() == pytest.approx(fixture.expect["curve"], abs=fixture.tol)
    assert found.area == pytest.approx(fixture.expect["A"], abs=fixture.tol)
    assert found.normalized == pytest.approx(fixture.expect["S"], abs=fixture.tol)
    alone = [sharpening(curves[[task]]).normalized or 0.0 for task in range(2)]
    assert np.mean(alone) == pytest.approx(fixture.expect["mean_of_per_task_S_wrong"], abs=fixture.tol)


def test_counts_give_the_unbiased_curve():
    fixture = method_fixture("M132.c")
    counts = list(zip(fixture.input["n"], fixture.input["c"], strict=True))
    found = sharpening(task_curves(counts, fixture.input["K"]))
    assert found.curve.tolist() == pytest.approx(fixture.expect["curve"], abs=fixture.tol)
    assert (found.area, found.normalized) == pytest.approx((fixture.expect["A"], fixture.expect["S"]), abs=fixture.tol)


def test_the_tax_is_base_minus_post():
    fixture = method_fixture("M132.b")
    base, post = (task_curves_of_rates(fixture.input[name], fixture.input["K"]) for name in ("base_p", "post_p"))
    found = sharpening_tax(base, post)
    assert [found.base.area, found.post.area] == pytest.approx(fixture.expect["A"], abs=fixture.tol)
    assert [found.base.normalized, found.post.normalized] == pytest.approx(fixture.expect["S"], abs=fixture.tol)
    assert found.area == pytest.approx(fixture.expect["Tax_A"], abs=fixture.tol)
    assert found.normalized == pytest.approx(fixture.expect["Tax_S"], abs=fixture.tol)


@pytest.mark.row("S410")
def test_without_headroom_the_normalized_form_is_undefined_and_never_divided():
    fixture = method_fixture("M132.d")
    perfect = task_curves_of_rates(fixture.input["p"], fixture.input["K"])
    found = sharpening(perfect)
    assert (found.area, found.normalized) == (fixture.expect["A"], None)
    other = task_curves_of_rates([0.5, 0.5], fixture.input["K"])
    assert sharpening_tax(other, perfect).normalized is None
    intervals = sharpening_tax_intervals(other, perfect, seed=0)
    assert intervals.normalized is None and intervals.num_undefined == 1000 and intervals.area is not None


@given(rates=rates, max_k=st.integers(2, 6))
def test_both_forms_lie_in_their_ranges(rates, max_k):
    found = sharpening(task_curves_of_rates(rates, max_k))
    assert np.all(np.diff(found.curve) >= -1e-12)
    assert -1e-12 <= found.area <= max_k - 1
    assert found.normalized is None or -1e-9 <= found.normalized <= 1.0 + 1e-9


def test_a_task_that_is_missing_in_one_policy_is_missing_in_both():
    base = task_curves([(4, 2), (4, 1), (1, 1)], 2)
    post = task_curves([(4, 4), (1, 0), (4, 3)], 2)
    found = sharpening_tax(base, post)
    assert (found.base.num_tasks, found.base.num_missing) == (1, 2)
    assert found.base.curve.tolist() == pytest.approx([0.5, 5 / 6])
    assert found.post.curve.tolist() == [1.0, 1.0]


def test_resampling_draws_the_same_tasks_for_both_policies():
    base = task_curves_of_rates(np.linspace(0.1, 0.9, 20).tolist(), 8)
    first, again, other = (sharpening_tax_intervals(base, base * 0.5, seed=seed) for seed in (1, 1, 2))
    assert first == again and first != other
    level = sharpening_tax_intervals(base, base, seed=0).area
    assert level is not None and (level.low, level.high) == (0.0, 0.0)
    tax = sharpening_tax(base, base * 0.5)
    assert first.area is not None and first.area.low < tax.area < first.area.high
    assert first.normalized is not None and tax.normalized is not None
    assert first.normalized.low < tax.normalized < first.normalized.high
    assert sharpening_tax_intervals(base[:1], base[:1], seed=0).area is None


def test_what_has_no_curve_is_refused():
    with pytest.raises(StatisticsError, match="at least 2"):
        task_curves_of_rates([0.5], 1)
    with pytest.raises(StatisticsError, match="smaller K"):
        sharpening(task_curves([(2, 1)], 4))
    with pytest.raises(StatisticsError, match="same tasks"):
        sharpening_tax(task_curves([(4, 1)], 2), task_curves([(4, 1)], 4))
    with pytest.raises(StatisticsError, match="at least 1000"):
        sharpening_tax_intervals(task_curves([(4, 1)], 2), task_curves([(4, 1)], 2), seed=0, resamples=10)


def test_known_rates_match_the_worked_numbers():
    fixture = method_fixture("M125.b")
    for policy, due in zip(fixture.input["p"], fixture.expect["mean"], strict=True):
        found = [np.mean([pass_at_k_of_rate(p, k) for p in policy]) for k in fixture.input["k"]]
        assert found == pytest.approx(due, abs=fixture.tol)
    assert pass_at_k_of_rate(1e-12, 2) == pytest.approx(2e-12, rel=1e-9)
    assert (pass_at_k_of_rate(1.0, 3), pass_at_k_of_rate(0.0, 3)) == (1.0, 0.0)
    with pytest.raises(StatisticsError, match="lies in"):
        pass_at_k_of_rate(1.1, 2)
