"""Estimators and intervals: worked numbers, exact checks by enumeration, and what is undefined."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import (
    StatisticsError,
    avg_at_n,
    bootstrap_interval,
    cluster_standard_error,
    clustered_interval,
    compare_paired,
    exhaustive_bootstrap_interval,
    mcnemar_exact,
    mean_over_tasks,
    normal_quantile,
    paired_bootstrap_interval,
    pass_at_k,
    pass_hat_k,
    task_means,
    wilson_interval,
)
from tests.cases import method_fixture


def known(interval):
    """The interval, which must exist."""
    assert interval is not None
    return interval


counts = st.integers(0, 12).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


def test_wilson_matches_the_worked_numbers():
    fixture = method_fixture("M130.a")
    assert normal_quantile(0.95) == pytest.approx(fixture.input["z"], abs=1e-12)
    for successes, (low, high) in zip(fixture.input["k"], fixture.expect["ci"], strict=True):
        found = wilson_interval(successes, fixture.input["n"])
        assert (found.low, found.high) == pytest.approx((low, high), abs=fixture.tol)
    nothing = wilson_interval(0, 0)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


@given(counts=counts, level=st.floats(0.5, 0.999))
def test_wilson_holds_the_rate_and_mirrors(counts, level):
    trials, successes = counts
    found, mirrored = (
        wilson_interval(successes, trials, level=level),
        wilson_interval(trials - successes, trials, level=level),
    )
    assert 0.0 <= found.low <= found.high <= 1.0
    assert (found.low, found.high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))
    if trials:
        assert found.low <= successes / trials <= found.high


def test_pass_at_k_matches_the_worked_numbers():
    fixture = method_fixture("M125.a")
    found = [pass_at_k(fixture.input["n"], c, fixture.input["k"]) for c in fixture.input["c"]]
    assert found == pytest.approx(fixture.expect["pass_at_k"], abs=fixture.tol)


def test_pass_hat_k_and_avg_match_the_worked_numbers():
    fixture = method_fixture("M126.a")
    found = [pass_hat_k(fixture.input["n"], c, fixture.input["k"]) for c in fixture.input["c"]]
    assert found == pytest.approx(fixture.expect["pass_hat_k"], abs=fixture.tol)
    average = method_fixture("M127.a")
    rates = [avg_at_n(average.input["n"], c) for c in average.input["c"]]
    assert rates == average.expect["avg_at_32"]
    assert mean_over_tasks(rates).value == average.expect["dataset"]


@given(counts=counts.filter(lambda pair: pair[0] > 0), data=st.data())
def test_pass_at_k_is_the_share_of_subsets_with_a_success(counts, data):
    attempts, successes = counts
    k = data.draw(st.integers(1, attempts))
    outcomes = [place < successes for place in range(attempts)]
    subsets = list(itertools.combinations(outcomes, k))
    assert pass_at_k(attempts, successes, k) == pytest.approx(float(Fraction(sum(map(any, subsets)), len(subsets))))
    assert pass_hat_k(attempts, successes, k) == pytest.approx(float(Fraction(sum(map(all, subsets)), len(subsets))))
    assert pass_at_k(attempts, successes, 1) == pytest.approx(avg_at_n(attempts, successes))


def test_what_a_sample_cannot_say_is_undefined_and_counted():
    assert pass_at_k(4, 4, 5) is None
    assert pass_hat_k(4, 4, 5) is None
    assert avg_at_n(0, 0) is None
    found = mean_over_tasks([pass_at_k(8, 8, 5), pass_at_k(4, 0, 5)])
    assert (found.value, found.num_tasks, found.num_missing) == (1.0, 1, 1)
    assert mean_over_tasks([None]).value is None


@pytest.mark.parametrize("wrong", [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(wrong):
    with pytest.raises(StatisticsError, match="between 0 and the attempts"):
        pass_at_k(*wrong)
    with pytest.raises(StatisticsError, match="between 0 and the trials"):
        wilson_interval(4, 3)
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        wilson_interval(1, 3, level=95)


def test_clustered_statistics_match_the_worked_numbers():
    fixture = method_fixture("M131.a")
    means = task_means(fixture.input["attempts"])
    assert float(means.mean()) == pytest.approx(fixture.expect["mean"], abs=fixture.tol)
    assert cluster_standard_error(means) == pytest.approx(fixture.expect["cluster_se"], abs=fixture.tol)
    attempts = np.array(fixture.input["attempts"]).flatten()
    naive = math.sqrt(attempts.mean() * (1 - attempts.mean()) / len(attempts))
    assert naive == pytest.approx(fixture.expect["naive_se_wrong"], abs=fixture.tol)
    due = fixture.expect["exhaustive_bootstrap"]
    found = known(exhaustive_bootstrap_interval(means, level=0.9))
    assert (found.low, found.high) == pytest.approx((due["q05"], due["q95"]), abs=fixture.tol)
    assert len(means) ** len(means) == due["n"]


def test_intervals_need_two_tasks():
    one = np.array([0.5])
    assert cluster_standard_error(one) is None
    assert clustered_interval(one) is None
    assert bootstrap_interval(one, seed=1) is None
    assert exhaustive_bootstrap_interval(one) is None


def test_a_task_without_a_score_is_refused_as_missing():
    with pytest.raises(StatisticsError, match="missing"):
        task_means([[1.0], []])


def test_the_bootstrap_is_seeded_and_close_to_the_normal_interval():
    means = np.linspace(0.0, 1.0, 60)
    first, again, other = (known(bootstrap_interval(means, seed=seed, resamples=2000)) for seed in (3, 3, 4))
    assert first == again
    assert first != other
    normal = known(clustered_interval(means))
    assert (first.low, first.high) == pytest.approx((normal.low, normal.high), abs=0.02)


def test_the_bootstrap_approaches_all_resamples():
    means = np.array([0.0, 0.25, 0.5, 1.0])
    sampled = known(bootstrap_interval(means, seed=0, resamples=20_000, level=0.8))
    exact = known(exhaustive_bootstrap_interval(means, level=0.8))
    assert (sampled.low, sampled.high) == pytest.approx((exact.low, exact.high), abs=0.07)


def test_too_few_resamples_and_too_many_tasks_are_refused():
    with pytest.raises(StatisticsError, match="at least 1000"):
        bootstrap_interval(np.array([0.0, 1.0]), seed=0, resamples=100)
    with pytest.raises(StatisticsError, match="use bootstrap_interval"):
        exhaustive_bootstrap_interval(np.zeros(9))


@given(means=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_resampling_stays_within_the_tasks(means):
    found = known(exhaustive_bootstrap_interval(np.array(means)))
    assert min(means) - 1e-12 <= found.low <= found.high <= max(means) + 1e-12


def test_paired_comparison_matches_the_worked_numbers():
    fixture = method_fixture("M133.a")
    found = compare_paired(np.array(fixture.input["task_delta"]))
    assert found.mean == pytest.approx(fixture.expect["mean"], abs=fixture.tol)
    assert found.standard_error == pytest.approx(fixture.expect["se"], abs=fixture.tol)
    assert found.t == pytest.approx(fixture.expect["t"], abs=fixture.tol)
    interval = known(paired_bootstrap_interval(np.array(fixture.input["task_delta"]), seed=0))
    assert interval.low <= 0.15 <= interval.high


def test_mcnemar_matches_the_worked_numbers():
    fixture = method_fixture("M133.b")
    found = mcnemar_exact(fixture.input["only_a"], fixture.input["only_b"])
    assert found == pytest.approx(fixture.expect["mcnemar_exact_p"], abs=fixture.tol)
    assert found == mcnemar_exact(fixture.input["only_b"], fixture.input["only_a"])
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(3, 3) == 1.0


def test_comparisons_without_tasks_or_spread_are_undefined():
    nothing = compare_paired(np.array([]))
    assert (nothing.mean, nothing.standard_error, nothing.t) == (None, None, None)
    level = compare_paired(np.array([0.25, 0.25]))
    assert (level.mean, level.standard_error, level.t) == (0.25, 0.0, None)
