"""A KL as part of the reward."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch

from rollwright.algorithms import (
    ObjectiveError,
    center_within_group,
    return_to_go,
)
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward, kl_penalties
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def scored(inputs, proximal, reference):
    streams = {"proximal": proximal, "reference": reference}
    streams = {name: torch.tensor(scores, dtype=torch.float64) for name, scores in streams.items()}
    return replace(inputs, logprobs=streams)


def one_row(distance):
    return scored(credit_inputs([1.0], lengths=[len(distance)]), distance, [0.0] * len(distance))


def test_each_token_pays_for_its_own_distance():
    fixture = method_fixture("M82.a")
    inputs = one_row(fixture.input["logp_old_minus_ref"])
    # Without discount a token's credit is its reward alone.
    found = kl_in_reward(inputs, credit=partial(return_to_go, discount=0.0), coefficient=fixture.input["beta"])
    assert found.advantages.tolist() == pytest.approx(fixture.expect["token_reward"], rel=fixture.tol)


def test_returns_sum_what_comes_behind():
    found = kl_in_reward(one_row([0.2, -0.1, 0.3]), credit=return_to_go, coefficient=0.1)
    assert found.advantages.tolist() == pytest.approx([0.96, 0.98, 0.97])


def two_rows():
    inputs = credit_inputs([1.0, 0.0], lengths=[2, 1])
    return scored(inputs, [-1.0, -1.0, -0.5], [-1.5, -1.25, -0.5])


def test_in_the_row_s_reward_it_changes_the_group_s_mean():
    found = kl_in_reward(two_rows(), credit=center_within_group, coefficient=1.0, place="row_rewards")
    assert found.advantages.tolist() == pytest.approx([0.125, 0.125, -0.125])


def test_behind_the_centring_it_is_per_token_and_the_group_stays():
    found = kl_in_reward(two_rows(), credit=center_within_group, coefficient=1.0, place="advantages")
    assert found.advantages.tolist() == pytest.approx([0.5 - 0.5, 0.5 - 0.25, -0.5])


def test_a_row_without_contrast_has_the_penalty_alone_and_an_unscored_one_nothing():
    inputs = scored(credit_inputs([1.0, 1.0, None]), [-1.0, -1.0, -1.0], [-1.5, -1.0, -2.0])
    found = kl_in_reward(inputs, credit=center_within_group, coefficient=0.2, place="advantages")
    assert found.advantages.tolist() == pytest.approx([-0.1, 0.0, 0.0])
    assert found.untrained == {0: "zero_contrast", 1: "zero_contrast", 2: "unscored"}


def test_a_score_that_is_not_finite_has_no_penalty():
    inputs = scored(credit_inputs([1.0], lengths=[3]), [math.nan, -1.0, -1.0], [-1.0, -math.inf, -2.0])
    assert kl_penalties(inputs, coefficient=0.5).tolist() == [0.0, 0.0, -0.5]


def test_its_coefficient_may_be_controlled():
    inputs, controller = one_row([1.0]), LinearAnneal(start=0.1, end=0.0, over=1)
    credit = partial(kl_in_reward, credit=return_to_go, coefficient=controller)
    assert credit(inputs).advantages.tolist() == [0.9]
    controller.observe({})
    assert credit(inputs).advantages.tolist() == [1.0]


def test_the_behavior_policy_may_stand_for_the_proximal_one():
    inputs = replace(
        credit_inputs([0.0]),
        logprobs={"behavior": torch.tensor([-1.0]).double(), "reference": torch.tensor([-1.5]).double()},
    )
    assert kl_penalties(inputs, coefficient=1.0, scored_by="behavior").tolist() == [-0.5]
    with pytest.raises(ObjectiveError, match="reads proximal log-probabilities"):
        kl_penalties(inputs, coefficient=1.0)
