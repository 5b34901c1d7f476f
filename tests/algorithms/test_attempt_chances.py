"""Chances over independent attempts (M94, M99, M102)."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.sampling.attempt_chances import (
    chance_of_any,
    chance_of_contrast,
    expected_groups,
    expected_successes,
)

chances = st.floats(0, 1)


@given(chances, st.integers(1, 6))
def test_chances_are_the_sums_over_all_outcomes(p, attempts):
    some, mixed = 0.0, 0.0
    for outcome in itertools.product((0, 1), repeat=attempts):
        weight = p ** sum(outcome) * (1 - p) ** (attempts - sum(outcome))
        some += weight * (sum(outcome) > 0)
        mixed += weight * (0 < sum(outcome) < attempts)
    assert float(chance_of_any(p, attempts)) == pytest.approx(some, abs=1e-12)
    assert float(chance_of_contrast(p, attempts)) == pytest.approx(mixed, abs=1e-12)


def test_no_attempt_has_no_success_and_a_group_of_one_no_contrast():
    assert chance_of_any([0.0, 0.5, 1.0], 0).tolist() == [0, 0, 0]
    assert chance_of_contrast([0.0, 0.3, 1.0], 1).tolist() == [0, 0, 0]
    assert chance_of_any([0.0, 1.0], 7).tolist() == [0, 1]


def test_a_tiny_chance_keeps_its_digits():
    assert float(chance_of_any(1e-18, 3)) == pytest.approx(3e-18, rel=1e-12)
    assert float(expected_successes(1e-18, 3)) == pytest.approx(3e-18)


def test_where_nothing_ever_has_contrast_the_groups_are_without_end():
    assert np.isinf(expected_groups(5, [0.0, 1.0], 8)).all()


@pytest.mark.parametrize(("p", "attempts"), [(1.5, 2), (-0.1, 2), (float("nan"), 2), (0.5, -1), (0.5, 1.5)])
def test_what_is_no_chance_or_count_is_refused(p, attempts):
    with pytest.raises(ObjectiveError, match="chance is|attempts is"):
        chance_of_any(p, attempts)
    with pytest.raises(ObjectiveError):
        chance_of_contrast(0.5, 0)
