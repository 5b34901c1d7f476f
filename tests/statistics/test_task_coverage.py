"""Coverage of tasks, variety of attempts, and correlations."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import (
    StatisticsError,
    choice_entropy,
    count_distinct,
    cover_at_k,
    cover_at_rate,
    covered_by_first,
    pearson,
    repeated_share,
    spearman,
)
from tests.cases import method_fixture


def test_coverage_matches_the_worked_numbers():
    fixture = method_fixture("M129.a")
    attempts, k = fixture.input["attempts"], fixture.input["k"]
    found = cover_at_k([(len(scores), sum(scores)) for scores in attempts], k)
    assert found.expected == pytest.approx(fixture.expect["expected_covered"], abs=fixture.tol)
    assert found.fraction == pytest.approx(fixture.expect["cover_frac"], abs=fixture.tol)
    assert covered_by_first(attempts, k) == fixture.expect["first_k_covered"]
    rates = method_fixture("M129.b")
    shares = [cover_at_rate(rates.input["p"], tau).value for tau in rates.input["tau"]]
    assert shares == pytest.approx(rates.expect["cover_at_tau"], abs=rates.tol)


@given(attempts=st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=4), min_size=1, max_size=3))
def test_expected_coverage_is_the_mean_over_all_orders_of_the_attempts(attempts):
    k = 2
    means = []
    for scores in attempts:
        orders = list(itertools.permutations(scores))
        means.append(sum(covered_by_first([order], k) for order in orders) / len(orders))
    assert cover_at_k([(len(s), sum(s)) for s in attempts], k).expected == pytest.approx(sum(means))


def test_tasks_with_too_few_attempts_are_missing_or_refused():
    found = cover_at_k([(1, 1), (4, 4)], 2)
    assert (found.expected, found.fraction, found.num_tasks, found.num_missing) == (1.0, 1.0, 1, 1)
    assert cover_at_k([], 2).fraction is None
    assert cover_at_rate([None, 0.5], 0.5).num_missing == 1
    with pytest.raises(StatisticsError, match="fewer than 2"):
        covered_by_first([[1]], 2)
    with pytest.raises(StatisticsError, match="lies in"):
        cover_at_rate([0.5], 0.0)


def test_a_rate_at_the_threshold_reaches_it():
    assert cover_at_rate([0.5], 0.5).value == 1.0


def test_variety_is_worked_by_hand():
    assert count_distinct(["a", "b", None, "a"]) == 2
    assert choice_entropy(["a", "b", "a", "b"]) == pytest.approx(math.log(2))
    assert choice_entropy(["a", "a"]) == 0.0
    assert choice_entropy([]) is None
    assert repeated_share([(1, 2), (1, 2), (3,), (1, 2)]) == 0.5
    assert repeated_share(["a", "b"]) == 0.0
    assert repeated_share([]) is None


def test_correlations_are_worked_by_hand():
    across = np.array([1.0, 2.0, 3.0, 4.0])
    assert pearson(across, 2.0 * across - 1.0) == pytest.approx(1.0)
    assert pearson(across, -across) == pytest.approx(-1.0)
    # Deviations (-1.5, -.5, .5, 1.5) and (-1, 0, 0, 1): 3 / sqrt(5 · 2).
    assert pearson(across, np.array([0.0, 1.0, 1.0, 2.0])) == pytest.approx(3.0 / math.sqrt(10.0))
    assert spearman(across, np.exp(across)) == pytest.approx(1.0)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(5 · 4.5).
    assert spearman(across, np.array([0.0, 1.0, 1.0, 2.0])) == pytest.approx(4.5 / math.sqrt(22.5))


def test_correlations_without_spread_are_undefined_and_odd_inputs_refused():
    level = np.array([0.1, 0.1, 0.1])
    assert pearson(level, np.arange(3.0)) is None and spearman(np.arange(3.0), level) is None
    assert pearson(np.array([1.0]), np.array([2.0])) is None
    with pytest.raises(StatisticsError, match="shapes"):
        pearson(np.arange(2.0), np.arange(3.0))
    with pytest.raises(StatisticsError, match="finite"):
        spearman(np.array([0.0, np.nan]), np.arange(2.0))
