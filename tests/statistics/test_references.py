"""The estimators beside those of SciPy and statsmodels, wherever these have the same one."""
# Results of SciPy and statsmodels have more than their types say:
# pyright: reportAttributeAccessIssue=false

import math

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from rollwright.statistics import (
    bootstrap_interval,
    clopper_pearson_interval,
    cluster_standard_error,
    clustered_interval,
    cohen_kappa,
    compare_paired,
    incomplete_beta,
    majority_at_k,
    mcnemar_exact,
    paired_bootstrap_interval,
    paired_t_interval,
    pass_at_k,
    pass_hat_k,
    pearson,
    spearman,
    student_p_value,
    student_quantile,
    task_means,
    wilson_interval,
)
from rollwright.statistics.verifier_audit import exact_upper_bound

counts = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.sampled_from([0.8, 0.9, 0.95, 0.99])


@given(counts, levels)
def test_wilsons_interval_is_that_of_statsmodels(count, level):
    successes, trials = count
    ours = wilson_interval(successes, trials, level=level)
    theirs = proportion_confint(successes, trials, alpha=1 - level, method="wilson")
    assert (ours.low, ours.high) == pytest.approx(theirs, abs=1e-12)


@given(counts, levels)
def test_the_exact_interval_of_a_rate_is_that_of_statsmodels(count, level):
    successes, trials = count
    ours = clopper_pearson_interval(successes, trials, level=level)
    theirs = proportion_confint(successes, trials, alpha=1 - level, method="beta")
    assert (ours.low, ours.high) == pytest.approx(theirs, abs=1e-9)


@given(counts, levels)
def test_the_upper_bound_of_an_audit_is_the_one_sided_exact_one(count, level):
    found, audited = count
    due = proportion_confint(found, audited, alpha=2 * (1 - level), method="beta")[1]
    assert exact_upper_bound(found, audited, level=level) == pytest.approx(due, abs=1e-9)


@given(st.integers(1, 3000), levels)
def test_the_bound_where_nothing_was_found_is_the_exact_one_of_the_binomial(audited, level):
    found = exact_upper_bound(0, audited, level=level)
    assert found == pytest.approx(proportion_confint(0, audited, alpha=2 * (1 - level), method="beta")[1], abs=1e-9)
    assert stats.binom.cdf(0, audited, found) == pytest.approx(1 - level, abs=1e-9)


@given(st.floats(0.1, 400), st.floats(0.1, 400), st.floats(0, 1))
def test_the_incomplete_beta_function_is_that_of_scipy(a, b, x):
    assert incomplete_beta(a, b, x) == pytest.approx(stats.beta.cdf(x, a, b), abs=1e-11)


@given(st.floats(-60, 60), st.integers(1, 5000))
def test_the_p_value_of_a_t_is_that_of_scipy(t, freedom):
    assert student_p_value(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-8, abs=1e-13)


@given(levels, st.integers(1, 5000))
def test_the_quantile_of_a_t_is_that_of_scipy(level, freedom):
    assert student_quantile(level, freedom) == pytest.approx(stats.t.ppf(0.5 + level / 2, freedom), rel=1e-9)


scores = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=40)


@given(scores)
def test_a_paired_comparison_is_the_paired_t_test_of_scipy(pairs):
    first, second = (np.array([pair[side] / 8 for pair in pairs]) for side in (0, 1))
    ours = compare_paired(first - second)
    if len(set((first - second).tolist())) == 1:
        assert (paired_t_interval(first - second), ours.p_value if ours.mean == 0 else None) == (None, None)
        return
    theirs = stats.ttest_rel(first, second)
    interval = theirs.confidence_interval(0.9)
    found = paired_t_interval(first - second, level=0.9)
    assert (ours.t, ours.p_value) == pytest.approx((theirs.statistic, theirs.pvalue), rel=1e-8, abs=1e-12)
    assert found is not None and (found.low, found.high) == pytest.approx((interval.low, interval.high), abs=1e-9)


@given(st.integers(0, 40), st.integers(0, 40))
def test_mcnemars_exact_test_is_that_of_statsmodels(only_first, only_second):
    table = [[5, only_first], [only_second, 7]]
    assert mcnemar_exact(only_first, only_second) == pytest.approx(mcnemar(table, exact=True).pvalue, abs=1e-12)


@given(st.integers(2, 12), st.integers(1, 6), st.randoms(use_true_random=False))
def test_the_clustered_error_is_that_of_statsmodels_with_its_factor_for_few_clusters(num_tasks, attempts, chance):
    # As many attempts at each task: the mean over tasks is the mean over attempts. statsmodels' correction is
    # G/(G − 1) · (N − 1)/(N − K); ours is G/(G − 1), so its last factor, here with K = 1, is 1.
    outcomes = np.array([[float(chance.random() < 0.5) for _ in range(attempts)] for _ in range(num_tasks)])
    tasks = np.repeat(np.arange(num_tasks), attempts)
    values = outcomes.reshape(-1)
    fitted = sm.OLS(values, np.ones(len(values))).fit(cov_type="cluster", cov_kwds={"groups": tasks})
    assert cluster_standard_error(task_means(outcomes.tolist())) == pytest.approx(float(fitted.bse[0]), abs=1e-12)


def test_the_clustered_normal_interval_is_that_of_scipy():
    means = np.array([1.0, 0.5, 0.0, 0.5, 0.25])
    ours = clustered_interval(means, level=0.9)
    theirs = stats.norm.interval(0.9, loc=means.mean(), scale=stats.sem(means))
    assert ours is not None and (ours.low, ours.high) == pytest.approx(theirs)


@pytest.mark.parametrize("make", [bootstrap_interval, paired_bootstrap_interval])
def test_the_bootstrap_over_tasks_agrees_with_scipys_percentile_bootstrap_within_its_noise(make):
    values = np.random.default_rng(3).normal(size=60)
    ours = make(values, seed=1, resamples=9999, level=0.9)
    theirs = stats.bootstrap((values,), np.mean, n_resamples=9999, confidence_level=0.9, method="percentile", rng=2)
    # A percentile of 9,999 resamples has a standard error below 3 % of the error of the mean.
    noise = 0.03 * float(stats.sem(values))
    assert ours.low == pytest.approx(theirs.confidence_interval.low, abs=4 * noise)
    assert ours.high == pytest.approx(theirs.confidence_interval.high, abs=4 * noise)


@given(st.lists(st.tuples(st.integers(-5, 5), st.integers(-5, 5)), min_size=4, max_size=30))
def test_correlations_are_those_of_scipy_with_ties(pairs):
    first, second = (np.array([float(pair[side]) for pair in pairs]) for side in (0, 1))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert pearson(first, second) is None and spearman(first, second) is None
        return
    assert pearson(first, second) == pytest.approx(float(stats.pearsonr(first, second).statistic), abs=1e-9)
    assert spearman(first, second) == pytest.approx(float(stats.spearmanr(first, second).statistic), abs=1e-9)


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=60))
def test_cohens_kappa_is_that_of_statsmodels(pairs):
    table = np.zeros((2, 2))
    for first, second in pairs:
        table[int(first), int(second)] += 1
    ours = cohen_kappa(pairs)
    if max(table[0, 0], table[1, 1]) == len(pairs):
        assert ours is None
        return
    with np.errstate(invalid="ignore", divide="ignore"):  # of a variance that is not compared
        theirs = float(cohens_kappa(table).kappa)
    assert ours == pytest.approx(theirs, abs=1e-12)


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_pass_at_k_and_pass_hat_k_are_chances_of_the_hypergeometric_distribution(drawn):
    attempts, successes, k = drawn
    chance = stats.hypergeom(attempts, successes, k)
    assert pass_at_k(attempts, successes, k) == pytest.approx(chance.sf(0), abs=1e-9)
    assert pass_hat_k(attempts, successes, k) == pytest.approx(chance.pmf(k), abs=1e-9)


@given(st.integers(1, 24).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
def test_a_vote_between_two_answers_is_a_tail_of_the_hypergeometric_distribution(drawn):
    attempts, right, k = drawn
    chance = stats.hypergeom(attempts, right, k)
    won = chance.sf(k // 2) + (0 if k % 2 else chance.pmf(k // 2) / 2)
    answers = ["right"] * right + ["wrong"] * (attempts - right)
    found = majority_at_k(answers, "right", k)
    assert found is not None and math.isclose(found, won, abs_tol=1e-9)
