"""What a pass rate decides (M95, M96, M97)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.sampling.pass_rates import (
    attempts_after_probe,
    gaussian_weights,
    low_likelihood_weights,
    pass_rate_within,
)


def test_a_rate_on_a_bound_of_the_filter_is_dropped():
    assert pass_rate_within([1, 2, 9], 10, low=0.1, high=0.9).tolist() == [False, True, False]
    assert pass_rate_within([0, 1, 4], 4, low=0, high=1).tolist() == [False, True, False]


def test_a_rate_on_a_bound_of_the_probe_goes_on():
    goes_on, attempts = attempts_after_probe([1, 8, 9], probe=10, full=100, low=0.1, high=0.8)
    assert goes_on.tolist() == [True, True, False]
    assert attempts.tolist() == [100, 100, 10]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(-2, 3), st.floats(0.01, 5))
def test_a_curriculum_is_a_distribution_wherever_its_center_is(rates, center, width):
    weights = gaussian_weights(rates, center=center, width=width)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    nearest = int(np.argmin(np.abs(np.asarray(rates) - center)))
    assert weights[nearest] == pytest.approx(weights.max())


def test_an_unmeasured_task_counts_as_solved_half_the_time():
    seen, unseen = gaussian_weights([0.5, float("nan")], center=0.2, width=0.1)
    assert seen == unseen
    assert len(gaussian_weights([], center=0.5, width=0.1)) == 0


@given(st.lists(st.floats(0, 0.99), min_size=2, max_size=8, unique=True), st.floats(0.5, 4))
def test_a_task_that_the_base_model_solves_more_often_is_drawn_less_often(rates, exponent):
    order = np.argsort(rates)
    weights = low_likelihood_weights(rates, exponent=exponent)[order]
    assert (np.diff(weights) <= 0).all()
    assert weights.sum() == pytest.approx(1)


def test_tasks_that_are_all_solved_are_drawn_alike():
    assert low_likelihood_weights([1.0, 1.0], exponent=2).tolist() == [0.5, 0.5]


def test_undisclosed_numbers_have_no_default():
    with pytest.raises(ObjectiveError, match="center has no default: Llama-Nemotron"):
        gaussian_weights([0.5], width=0.1)
    with pytest.raises(ObjectiveError, match="exponent has no default"):
        low_likelihood_weights([0.5])


def test_impossible_numbers_are_refused():
    with pytest.raises(ObjectiveError, match=r"\[5\.0\] successes in \[4\.0\]"):
        pass_rate_within([5], 4, low=0, high=1)
    with pytest.raises(ObjectiveError, match="low must be below high"):
        pass_rate_within([1], 4, low=0.5, high=0.5)
    with pytest.raises(ObjectiveError, match="width above 0"):
        gaussian_weights([0.5], center=0.5, width=0)
    with pytest.raises(ObjectiveError, match="at least 1 and at most all"):
        attempts_after_probe([1], probe=16, full=8, low=0, high=1)
    with pytest.raises(ObjectiveError, match="between 0 and 1"):
        gaussian_weights([1.5], center=0.5, width=1)
    with pytest.raises(ObjectiveError, match="would not fall"):
        low_likelihood_weights([0.5], exponent=0)
