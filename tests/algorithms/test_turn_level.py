"""Turns as steps: one value, one reward and one advantage each."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.credit.generalized_advantage import generalized_advantage
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.turns import turns_of
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def rows(turns, step_rewards, values, *, lengths=None, rewards=None, bootstrap=None, truncated=None):
    lengths = lengths or [len(turns)]
    inputs = credit_inputs(
        rewards or [0.0] * len(lengths), lengths=lengths, step_rewards=step_rewards, truncated=truncated
    )
    return replace(
        inputs,
        turn_index=torch.tensor(turns, dtype=torch.int64),
        values={
            "predicted": torch.tensor(values, dtype=torch.float64),
            "bootstrap": torch.tensor(bootstrap or [0.0] * len(lengths), dtype=torch.float64),
        },
    )


def test_turns_end_where_rows_end_even_when_the_number_goes_on():
    inputs = rows([0, 0, 1, 1, 1, 4], [0.0] * 6, [0.0] * 6, lengths=[3, 0, 2, 1], rewards=[0.0] * 4)
    turns = turns_of(inputs)
    assert turns.starts.tolist() == [0, 2, 3, 5]
    assert turns.row_offsets.tolist() == [0, 2, 2, 3, 4]
    assert turns.of_token.tolist() == [0, 0, 1, 2, 2, 3]
    assert turns.sum_of(torch.arange(6.0)).tolist() == [1.0, 2.0, 7.0, 5.0]


def test_all_tokens_of_a_turn_have_its_worth():
    worked = method_fixture("M14.a")
    inputs = rows([0, 0, 1, 2, 2], [0.0, 0.0, 0.2, 0.0, 1.0], [0.5, 7.0, 0.6, 0.7, float("nan")])
    credit = turn_level_advantage(inputs, discount=0.99, decay=0.9)
    assert credit.advantages.tolist() == pytest.approx(worked.expect["A_token"], abs=worked.tol)
    assert credit.value_targets is not None
    assert credit.value_targets[:2].tolist() == pytest.approx([1.0932273] * 2, abs=1e-9)


@pytest.mark.row("S301")
def test_turn_rewards_are_discounted_into_returns_a_turn_not_a_token():
    inputs = rows([0, 0, 0, 1, 2, 2], [0.0, 0.5, 0.0, 1.0, 0.0, 0.0], [0.0] * 6, rewards=[4.0])
    found = turn_level_advantage(inputs, discount=0.5, decay=1.0).advantages.tolist()
    assert found == [0.5 + 0.5 * 1.0 + 0.25 * 4.0] * 3 + [1.0 + 0.5 * 4.0] + [4.0] * 2


def test_a_turn_of_one_token_is_a_token():
    inputs = rows([0, 1, 2, 0, 1], [0.0, 0.1, 0.0, 0.3, 0.0], [0.5, 0.4, 0.3, 0.2, 0.1], lengths=[3, 2])
    by_turn = turn_level_advantage(inputs, discount=0.9, decay=0.8)
    by_token = generalized_advantage(inputs, discount=0.9, policy_lambda=0.8, value_lambda=0.8)
    torch.testing.assert_close(by_turn.advantages, by_token.advantages)
    torch.testing.assert_close(by_turn.value_targets, by_token.value_targets)


def test_splitting_the_tokens_of_a_turn_changes_nothing():
    short = rows([0, 1], [0.2, 1.0], [0.5, 0.6])
    long = rows([0, 0, 0, 1, 1], [0.1, 0.0, 0.1, 0.0, 1.0], [0.5, 0.0, 0.0, 0.6, 0.0])
    one = turn_level_advantage(short, discount=0.9, decay=0.8).advantages
    other = turn_level_advantage(long, discount=0.9, decay=0.8).advantages
    torch.testing.assert_close(other, one[torch.tensor([0, 0, 0, 1, 1])])


def test_a_cut_off_row_is_followed_by_the_value_behind_it():
    inputs = rows([0, 1], [0.0, 0.0], [0.5, 0.4], bootstrap=[0.7], truncated=[1])
    found = turn_level_advantage(inputs, discount=1.0, decay=1.0).advantages.tolist()
    assert found == pytest.approx([0.2, 0.3])
    assert turn_level_advantage(
        inputs, discount=1.0, decay=1.0, truncation="terminal"
    ).advantages.tolist() == pytest.approx([-0.5, -0.4])


def test_numbers_outside_their_range_are_refused():
    inputs = rows([0], [0.0], [0.0])
    with pytest.raises(ObjectiveError, match="the decay is 1.1"):
        turn_level_advantage(inputs, discount=1.0, decay=1.1)
