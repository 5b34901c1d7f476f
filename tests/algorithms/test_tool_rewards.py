"""What tool calls cost and what they are worth (M124), and rewards of single steps."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms import ObjectiveError, center_within_group
from rollwright.algorithms.rewards.step_similarity import step_similarities, step_similarity
from rollwright.algorithms.rewards.tool_call_score import CallShape, score_tool_calls
from rollwright.algorithms.rewards.tool_cost import charge_tool_calls, less_tool_cost
from tests.algorithms.pieces import credit_inputs


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 50)), min_size=2, max_size=8), st.floats(0, 0.5))
def test_every_success_is_worth_more_than_every_failure(attempts, cost):
    rewards = torch.tensor([float(right) for right, _ in attempts], dtype=torch.float64)
    calls = torch.tensor([number for _, number in attempts])
    charged = less_tool_cost(rewards, calls, cost=cost, cap=0.9)
    assert charged[rewards == 0].tolist() == [0.0] * int((rewards == 0).sum())
    assert (charged[rewards == 1] > 0.09).all()


def test_a_cheaper_success_is_better_and_an_unscored_attempt_stays_so():
    inputs = replace(
        credit_inputs([1, 1, 0, None]), values={"tool_calls": torch.tensor([1.0, 9.0, 9.0, 2.0], dtype=torch.float64)}
    )
    credit = charge_tool_calls(inputs, credit=center_within_group, cost=0.02, cap=0.1)
    mean = (0.98 + 0.9) / 3
    assert credit.advantages.tolist() == pytest.approx([0.98 - mean, 0.9 - mean, -mean, 0])
    assert credit.untrained == {3: "unscored"}


def test_a_cap_that_could_turn_a_success_into_a_failure_is_refused():
    with pytest.raises(ObjectiveError, match="cap below 1"):
        less_tool_cost(torch.ones(1), torch.ones(1), cost=0.1, cap=1.0)
    with pytest.raises(ObjectiveError, match="cost is -1"):
        less_tool_cost(torch.ones(1), torch.ones(1), cost=-1, cap=0.1)
    with pytest.raises(ObjectiveError, match="`tool_calls` values"):
        charge_tool_calls(credit_inputs([1, 0]), credit=center_within_group, cost=0.1, cap=0.1)


def call(name, **arguments):
    return CallShape(name=name, arguments=arguments)


@pytest.mark.row("S300")
def test_name_argument_and_outcome_of_a_call_score_apart_and_sum_to_the_reward():
    expected = [call("search", query="rain", limit=3)]
    right = score_tool_calls([call("search", query="rain", limit=3)], expected, outcome=1.0)
    half = score_tool_calls([call("search", query="rain", limit=5)], expected, outcome=0.0)
    other = score_tool_calls([call("browse", query="rain", limit=3)], expected, outcome=1.0)
    assert (right.name, right.argument, right.outcome, right.total()) == (1, 1, 1, 3)
    assert (half.name, half.argument, half.outcome) == (1, 0.5, 0)
    assert (other.name, other.argument, other.outcome) == (0, 0, 1)
    assert half.total((0.2, 0.3, 0.5)) == pytest.approx(0.2 * half.name + 0.3 * half.argument + 0.5 * half.outcome)


def test_each_expected_call_takes_the_unused_call_that_fits_best():
    expected = [call("f", x=1), call("f", x=2), call("g")]
    given_calls = [call("f", x=2), call("f", x=3), call("h")]
    score = score_tool_calls(given_calls, expected, outcome=0.0)
    assert score.name == pytest.approx(1 / 3)
    assert score.argument == pytest.approx(0 / 3)
    score = score_tool_calls([call("g"), call("f", x=2), call("f", x=1)], expected, outcome=0.0)
    assert (score.name, score.argument) == (1, 1)
    assert score_tool_calls([], [], outcome=1.0).total() == 3
    assert score_tool_calls([call("f")], [], outcome=0.0).total() == 0
    with pytest.raises(ObjectiveError, match="between 0 and 1"):
        score_tool_calls([], [], outcome=2.0)


@pytest.mark.row("S216", "S292")
def test_steps_like_the_expert_s_are_paid_where_every_answer_is_wrong():
    expert = ["let x = 3", "then y = 2 * x", "so y = 6"]
    attempts = [["let x = 3", "then y = 2 + x", "so y = 5"], ["let z = 9", "hence", "so y = 7", "stop"]]
    outcomes = [float(steps[-1] == expert[-1]) for steps in attempts]
    assert outcomes == [0, 0]
    rewards = [step_similarities(steps, expert) for steps in attempts]
    assert all(0 <= reward <= 1 for steps in rewards for reward in steps)
    assert rewards[0][0] == 1
    assert 0.5 < rewards[0][1] < 1
    assert sum(rewards[0]) / 3 > sum(rewards[1]) / 4 > 0
    assert rewards[1][3] == 0


@given(st.text(max_size=20), st.text(max_size=20))
def test_likeness_is_a_share_and_one_for_the_same_step(one, other):
    assert 0 <= step_similarity(one, other) <= 1
    assert step_similarity(one, one) == 1
    assert (step_similarity(one, other) == 1) == (one == other)
