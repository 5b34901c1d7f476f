"""The entropy law and the compute curve; runs and seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import (
    StatisticsError,
    bootstrap_interval,
    compute_curve,
    crossed_bootstrap_interval,
    entropy_law,
    fit_entropy_law,
    level_of,
    nested_bootstrap_interval,
    normal_quantile,
)
from tests.cases import method_fixture

ENTROPIES = np.array([1.2, 0.9, 0.6, 0.4, 0.3, 0.25])


def noisy(seed=0):
    noise = np.random.default_rng(seed).normal(0.0, 0.005, len(ENTROPIES))
    return entropy_law(ENTROPIES, a=0.2, b=0.7) + noise


def test_both_trends_match_the_worked_numbers():
    law = method_fixture("M134.b")
    found = entropy_law(np.array(law.input["H"], dtype=float), a=law.input["a"], b=law.input["b"])
    assert found.tolist() == pytest.approx(law.expect["R"], abs=law.tol)
    curve = method_fixture("M134.a")
    names = {"R0": "floor", "A": "ceiling", "C_mid": "midpoint", "B": "exponent"}
    settings = {ours: curve.input[theirs] for theirs, ours in names.items()}
    assert compute_curve(np.array(curve.input["C"]), **settings).tolist() == pytest.approx(
        curve.expect["R"], abs=curve.tol
    )


@pytest.mark.row("S187")
def test_a_fit_warns_where_it_extrapolates():
    fit = fit_entropy_law(ENTROPIES, noisy(), fitted_on="run 1")
    inside = fit.at(0.5, of="run 1")
    assert inside.warning is None
    assert inside.value == pytest.approx(0.7 - 0.2 * np.exp(0.5), abs=0.01)
    for entropy in (0.1, 1.3):
        point = fit.at(entropy, of="run 1")
        assert point.warning is not None and "extrapolation" in point.warning
    ceiling = fit.ceiling()
    assert ceiling.value == pytest.approx(fit.b - fit.a) and ceiling.warning is not None


@pytest.mark.row("S488")
def test_a_fit_has_intervals_and_refuses_other_runs():
    fit = fit_entropy_law(ENTROPIES, noisy(), fitted_on="run 1")
    assert fit.a_interval.low < 0.2 < fit.a_interval.high
    assert fit.b_interval.low < 0.7 < fit.b_interval.high
    assert fit.r_squared is not None and fit.r_squared > 0.99 and fit.num_points == 6
    with pytest.raises(StatisticsError, match="says nothing of 'run 2'"):
        fit.at(0.5, of="run 2")
    assert fit == fit_entropy_law(ENTROPIES, noisy(), fitted_on="run 1")
    assert fit != fit_entropy_law(ENTROPIES, noisy(), fitted_on="run 1", seed=1)


@given(a=st.floats(0.01, 2.0), b=st.floats(-1.0, 3.0))
def test_points_on_the_law_give_it_back(a, b):
    fit = fit_entropy_law(ENTROPIES, entropy_law(ENTROPIES, a=a, b=b), fitted_on="run")
    assert (fit.a, fit.b) == pytest.approx((a, b), rel=1e-9, abs=1e-9)
    assert (fit.a_interval.low, fit.a_interval.high) == pytest.approx((a, a), rel=1e-6)
    assert fit.residual == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize(
    ("entropy", "performance", "sentence"),
    [
        ([1.0, 0.5], [0.1, 0.2], "at least three points"),
        ([1.0, 1.0, 1.0], [0.1, 0.2, 0.3], "two different entropies"),
        ([1.0, 0.5, np.nan], [0.1, 0.2, 0.3], "finite"),
        ([1.0, 0.5, 0.2], [0.1, 0.2], "one of each"),
    ],
)
def test_points_that_carry_no_line_are_refused(entropy, performance, sentence):
    with pytest.raises(StatisticsError, match=sentence):
        fit_entropy_law(np.array(entropy), np.array(performance), fitted_on="run")


def test_level_performance_has_no_explained_share():
    fit = fit_entropy_law(ENTROPIES, np.full(6, 0.5), fitted_on="run")
    assert fit.a == pytest.approx(0.0) and fit.r_squared is None
    with pytest.raises(StatisticsError, match="at least 0 nats"):
        fit.at(-1.0, of="run")


def test_the_compute_curve_rises_from_floor_to_ceiling_without_overflow():
    compute = np.array([0.0, 1.0, 1e3, 1e30, 1e300])
    found = compute_curve(compute, floor=0.2, ceiling=0.6, midpoint=1e3, exponent=5.0)
    assert found[0] == 0.2 and found[2] == pytest.approx(0.4) and found[-1] == pytest.approx(0.6)
    assert np.all(np.diff(found) >= 0)
    with pytest.raises(StatisticsError, match="lie above 0"):
        compute_curve(compute, floor=0.2, ceiling=0.6, midpoint=0.0, exponent=1.0)
    with pytest.raises(StatisticsError, match="at least 0"):
        compute_curve(np.array([-1.0]), floor=0.2, ceiling=0.6, midpoint=1.0, exponent=1.0)


def test_runs_that_differ_widen_the_interval_over_tasks_alone():
    generator = np.random.default_rng(0)
    tasks = generator.uniform(0.3, 0.7, 40)
    runs = np.stack([tasks + shift for shift in (-0.2, 0.0, 0.2)])
    crossed = crossed_bootstrap_interval(runs, seed=0)
    nested = nested_bootstrap_interval(list(runs), seed=0)
    alone = bootstrap_interval(runs.mean(axis=0), seed=0)
    assert crossed is not None and nested is not None and alone is not None
    assert crossed.high - crossed.low > 2 * (alone.high - alone.low)
    assert nested.high - nested.low > 2 * (alone.high - alone.low)
    assert crossed.low < runs.mean() < crossed.high and nested.low < runs.mean() < nested.high
    assert crossed == crossed_bootstrap_interval(runs, seed=0)
    assert nested != nested_bootstrap_interval(list(runs), seed=1)


def test_equal_runs_leave_the_spread_of_tasks():
    tasks = np.linspace(0.0, 1.0, 30)
    crossed = crossed_bootstrap_interval(np.stack([tasks] * 3), seed=0, resamples=4000)
    alone = bootstrap_interval(tasks, seed=0, resamples=4000)
    assert crossed is not None and alone is not None
    assert (crossed.low, crossed.high) == pytest.approx((alone.low, alone.high), abs=0.02)


def test_nested_runs_may_have_tasks_of_their_own():
    found = nested_bootstrap_interval([np.array([0.0, 1.0]), np.array([1.0, 1.0, 1.0])], seed=0)
    assert found is not None and 0.0 <= found.low <= found.high <= 1.0
    assert nested_bootstrap_interval([np.array([0.5])], seed=0) is None
    assert crossed_bootstrap_interval(np.array([[0.5], [0.6]]), seed=0) is None
    with pytest.raises(StatisticsError, match="no task"):
        nested_bootstrap_interval([np.array([]), np.array([0.5])], seed=0)
    with pytest.raises(StatisticsError, match="shape"):
        crossed_bootstrap_interval(np.array([0.5, 0.6]), seed=0)


@given(level=st.floats(0.01, 0.9999))
def test_level_and_quantile_undo_each_other(level):
    assert level_of(normal_quantile(level)) == pytest.approx(level, rel=1e-9)


@pytest.mark.parametrize("z", [0.0, -1.0, float("inf"), float("nan")])
def test_no_level_belongs_to_no_deviation(z):
    with pytest.raises(StatisticsError, match="above 0"):
        level_of(z)
