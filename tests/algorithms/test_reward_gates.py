"""Rewards that count only once something else holds (M120)."""

import pytest
import torch

from rollwright.algorithms import ObjectiveError, return_to_go
from rollwright.algorithms.rewards.reward_gates import (
    accumulate_when_open,
    essential_first,
    gate_step_rewards,
    scaffolded_reward,
)
from tests.algorithms.pieces import credit_inputs

NAN = float("nan")


def exact(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.row("S291")
def test_immediate_rewards_are_nothing_while_the_gate_is_closed_and_appear_once_it_opens():
    inputs = credit_inputs([1.0, 0.5, None], lengths=[2, 2, 1], step_rewards=[0.1, 0.2, 0.3, 0.4, 0.5])
    seen = []

    def watched(given):
        seen.append(given.step_rewards.tolist())
        return return_to_go(given)

    gate_step_rewards(inputs, credit=watched, threshold=1.0)
    assert seen == [[0.1, 0.2, 0, 0, 0]]
    credit = gate_step_rewards(inputs, credit=return_to_go, threshold=1.0)
    assert credit.advantages.tolist() == pytest.approx([1.3, 1.2, 0.5, 0.5, 0])
    opened = gate_step_rewards(inputs, credit=return_to_go, threshold=0.5)
    assert opened.advantages.tolist() == pytest.approx([1.3, 1.2, 1.2, 0.9, 0])


def test_a_goal_on_its_threshold_is_open_and_an_unscored_one_has_no_reward():
    found = accumulate_when_open(exact(1, 0.99, NAN), exact(0.5, 0.5, 0.5), threshold=1.0)
    assert found[:2].tolist() == [1.5, 0.99]
    assert found.isnan().tolist() == [False, False, True]


def test_criteria_beside_the_essential_ones_count_where_all_of_those_hold():
    essential = torch.tensor([[1, 1], [1, 0.9], [1, NAN], [NAN, NAN]], dtype=torch.float64)
    additional = torch.tensor([[1, 0], [1, 1], [NAN, NAN], [1, 1]], dtype=torch.float64)
    found = essential_first(essential, additional, additional_weight=0.2)
    assert found[:3].tolist() == pytest.approx([1.1, 0.95, 1.0])
    assert bool(found[3].isnan())
    with pytest.raises(ObjectiveError, match="additional_weight has no default"):
        essential_first(essential, additional)
    with pytest.raises(ObjectiveError, match="essential lies outside 0 to 1"):
        essential_first(2 * essential, additional, additional_weight=0.2)


@pytest.mark.row("S290")
def test_prefix_rewards_flow_until_a_prompt_is_solved_and_rewards_of_form_for_right_answers_after_it():
    """Rows 0 to 2 are of a prompt that was never solved, rows 3 to 5 of one that was."""
    is_solved = torch.tensor([False, False, False, True, True, True])
    correct = exact(0, 0, NAN, 1, 1, 0)
    prefix = exact(0.5, 0.25, 1, 0.5, 0.5, 0.5)
    shape = exact(1, 1, 1, 1, 0.5, 1)
    weights = {"prefix_weight": 0.4, "shape_weight": 0.1}
    found = scaffolded_reward(correct, prefix, shape, is_solved=is_solved, **weights)
    assert found[:2].tolist() == pytest.approx([0.2, 0.1])
    assert bool(found[2].isnan())
    assert found[3:].tolist() == pytest.approx([1.1, 1.05, 0])
    switched = scaffolded_reward(correct, prefix, shape, is_solved=~is_solved, **weights)
    assert switched[:2].tolist() == [0, 0]
    with pytest.raises(ObjectiveError, match="shape_weight has no default: the abstract of SCOPE-RL"):
        scaffolded_reward(correct, prefix, shape, is_solved=is_solved, prefix_weight=0.4)
