"""GRPO-RoC (M98)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, standardize_within_group
from rollwright.algorithms.sampling.resample_on_correct import (
    inverse_penalty_chances,
    resample_on_correct,
    trace_penalty,
)
from tests.algorithms.pieces import credit_inputs


@pytest.mark.row("S183")
def test_cleaner_successes_are_kept_more_often_and_their_reward_is_what_it_was():
    is_correct = np.array([True] * 16 + [False] * 16)
    errors = np.array([0, 4] * 16)
    penalties = trace_penalty(errors, [4] * 32, [1] * 32, [5] * 32)
    generator = np.random.default_rng(1)
    kept = [resample_on_correct(is_correct, penalties, keep=16, generator=generator, floor=0.01) for _ in range(50)]
    clean = np.mean([(errors[places[is_correct[places]]] == 0).mean() for places in kept])
    dirty_failures = np.mean([(errors[places[~is_correct[places]]] == 0).mean() for places in kept])
    assert clean > 0.95
    assert dirty_failures == pytest.approx(0.5, abs=0.1)
    # A draw that kept a success with errors: it is worth what a clean one is.
    mixed = next(places for places in kept if (errors[places] * is_correct[places]).any())
    rewards = is_correct.astype(float)[mixed].tolist()
    advantages = standardize_within_group(credit_inputs(rewards), ddof=0, eps=0).advantages.tolist()
    assert advantages == [1.0 if is_correct[place] else -1.0 for place in mixed]


@given(st.lists(st.booleans(), min_size=1, max_size=12), st.data())
def test_as_many_as_asked_for_are_kept_once_each_and_half_of_them_are_failures(is_correct, data):
    keep = data.draw(st.integers(0, len(is_correct)))
    generator = np.random.default_rng(0)
    places = resample_on_correct(is_correct, [0.0] * len(is_correct), keep=keep, generator=generator, floor=0.01)
    assert len(set(places.tolist())) == keep == len(places)
    failures = sum(not is_correct[place] for place in places)
    wrong, right = is_correct.count(False), is_correct.count(True)
    assert failures == max(min(wrong, keep // 2), keep - right)


def test_penalties_of_no_call_and_no_answer():
    assert trace_penalty([0], [0], [0], [0]).tolist() == [1.5]
    assert trace_penalty([1, 0], [2, 3], [9, 1], [2, 4]).tolist() == [1.5, 0.0]


def test_a_floor_is_chosen_and_positive():
    assert inverse_penalty_chances([0, 0.5], floor=0.5).tolist() == [0.5, 0.5]
    with pytest.raises(ObjectiveError, match="floor has no default: rStar2-Agent"):
        inverse_penalty_chances([0.1])
    with pytest.raises(ObjectiveError, match="above 0"):
        inverse_penalty_chances([0.1], floor=0)


def test_impossible_counts_are_refused():
    with pytest.raises(ObjectiveError, match="more tool errors than calls"):
        trace_penalty([3], [2], [1], [1])
    with pytest.raises(ObjectiveError, match="5 of 2 attempts"):
        resample_on_correct([True, False], [0, 0], keep=5, generator=np.random.default_rng(0), floor=0.1)
