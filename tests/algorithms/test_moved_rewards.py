"""Rewards move to action tokens, whatever they stood on."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError
from rollwright.algorithms.credit.moved_rewards import move_to_actions
from rollwright.algorithms.scans import running_sums


def moved(rewards, mask, offsets):
    return move_to_actions(
        torch.tensor(rewards, dtype=torch.float64), torch.tensor(mask, dtype=torch.bool), torch.tensor(offsets)
    )


def test_a_reward_moves_back_to_the_last_action_and_else_on_to_the_first():
    found = moved([5, 0, 0, 2, 1], [0, 1, 1, 0, 0], [0, 5])
    assert found.step_rewards.tolist() == [5.0, 3.0]
    assert found.num_moved == 3


def test_rewards_do_not_leave_their_row_and_a_row_without_actions_loses_its_own():
    found = moved([0, 7, 9, 4, 1, 0], [1, 0, 0, 0, 0, 1], [0, 2, 4, 6])
    assert found.step_rewards.tolist() == [7.0, 1.0]
    assert found.num_moved == 2


def test_rewards_on_actions_stay():
    found = moved([0.5, 0, 1], [1, 1, 1], [0, 3])
    assert found.step_rewards.tolist() == [0.5, 0.0, 1.0]
    assert found.num_moved == 0
    assert moved([], [], [0]).step_rewards.tolist() == []


def test_streams_of_unequal_length_are_refused():
    with pytest.raises(ObjectiveError, match="over the same tokens"):
        moved([1.0], [1, 1], [0, 2])
    with pytest.raises(ObjectiveError, match="over the same tokens"):
        moved([1.0, 0.0], [1, 1], [0, 3])


@given(
    rows=st.lists(
        st.lists(st.tuples(st.integers(-3, 3), st.booleans()), max_size=6),
        max_size=5,
    )
)
def test_no_reward_is_lost_in_a_row_with_actions(rows):
    tokens = [token for row in rows for token in row]
    offsets = [0]
    for row in rows:
        offsets.append(offsets[-1] + len(row))
    found = moved([reward for reward, _ in tokens], [is_action for _, is_action in tokens], offsets)
    left = iter(found.step_rewards.tolist())
    for row in rows:
        paid = [next(left) for _, is_action in row if is_action]
        if paid:
            assert sum(paid) == sum(reward for reward, _ in row)


@given(lengths=st.lists(st.integers(0, 200), max_size=6), seed=st.integers(0, 9))
def test_running_sums_are_those_of_each_row(lengths, seed):
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    values = torch.randn(sum(lengths), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    due = torch.cat([values.new_zeros(0), *(row.cumsum(0) for row in values.split(lengths))]) if lengths else values
    assert torch.allclose(running_sums(values, offsets), due, atol=1e-12)
