"""Audits of verifiers (M121 to M123)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.statistics import StatisticsError, wilson_interval
from rollwright.statistics.verifier_audit import VerifierAudit, exact_upper_bound, metamorphic_gap, rogan_gladen

shares = st.floats(0, 1)


@given(shares, shares, shares)
def test_the_correction_finds_the_pass_rate_that_a_verifier_distorted(true_rate, sensitivity, false_positives):
    observed = true_rate * sensitivity + (1 - true_rate) * false_positives
    found = rogan_gladen(min(1.0, observed), sensitivity, false_positives)
    if sensitivity <= false_positives:
        assert found is None
    elif sensitivity - false_positives > 1e-3:
        assert found == pytest.approx(true_rate, abs=1e-9)


@pytest.mark.row("S389")
def test_a_sampled_audit_gives_both_error_rates_with_intervals():
    audit = VerifierAudit(
        accepted=800, audited_accepted=100, false_accepts=7, rejected=200, audited_rejected=50, false_rejects=5
    )
    errors = audit.errors(level=0.9)
    assert errors.false_positive_rate == pytest.approx(56 / (56 + 180))
    assert errors.sensitivity == pytest.approx(744 / 764)
    assert errors.false_accepts == wilson_interval(7, 100, level=0.9)
    assert errors.false_rejects == wilson_interval(5, 50, level=0.9)
    assert errors.false_accepts.low < 0.07 < errors.false_accepts.high


def test_a_stratum_that_nobody_looked_at_leaves_its_rates_undefined():
    audit = VerifierAudit(
        accepted=8, audited_accepted=0, false_accepts=0, rejected=2, audited_rejected=2, false_rejects=1
    )
    errors = audit.errors()
    assert errors.false_positives is errors.sensitivity is errors.precision is errors.corrected_pass_rate is None
    assert errors.false_negatives == 1
    assert (errors.false_accepts.low, errors.false_accepts.high) == (0, 1)


def test_an_empty_stratum_has_no_errors():
    errors = VerifierAudit(
        accepted=4, audited_accepted=4, false_accepts=1, rejected=0, audited_rejected=0, false_rejects=0
    ).errors()
    assert (errors.false_positives, errors.false_negatives, errors.sensitivity) == (1, 0, 1)
    assert errors.false_positive_rate == 1
    assert errors.corrected_pass_rate is None


@given(st.integers(1, 60), st.data())
def test_the_bound_is_the_share_under_which_so_few_finds_are_just_improbable(audited, data):
    found = data.draw(st.integers(0, audited - 1))
    bound = exact_upper_bound(found, audited, level=0.95)
    tail = sum(math.comb(audited, k) * bound**k * (1 - bound) ** (audited - k) for k in range(found + 1))
    assert tail == pytest.approx(0.05, rel=1e-6)
    assert bound > found / audited


def test_the_bound_of_no_find_is_near_three_over_n_and_without_an_audit_it_is_one():
    assert exact_upper_bound(0, 1000) == pytest.approx(3 / 1000, rel=0.01)
    assert exact_upper_bound(0, 0) == 1
    assert exact_upper_bound(5, 5) == 1


def test_renaming_takes_the_reward_of_who_learned_the_names():
    gap = metamorphic_gap([1, 1, 1, 0], [1, 0, 0, 0])
    assert gap.hack_gap == 0.5
    assert gap.failure_rate == pytest.approx(2 / 3)
    honest = metamorphic_gap([1, 0], [1, 0])
    assert (honest.hack_gap, honest.failure_rate) == (0, 0)
    assert metamorphic_gap([], []).hack_gap is None
    assert metamorphic_gap([0.5], [0.5]).failure_rate is None
    assert metamorphic_gap([0.5], [0.2], success_at=0.5).failure_rate == 1


def test_what_no_audit_gives_is_refused():
    with pytest.raises(StatisticsError, match="each is at most the one before it"):
        VerifierAudit(accepted=3, audited_accepted=4, false_accepts=0, rejected=0, audited_rejected=0, false_rejects=0)
    with pytest.raises(StatisticsError, match="between 0 and 1"):
        rogan_gladen(1.5, 0.9, 0.1)
    with pytest.raises(StatisticsError, match="finds are at most the audited"):
        exact_upper_bound(3, 2)
    with pytest.raises(StatisticsError, match="give pairs"):
        metamorphic_gap([1], [])
