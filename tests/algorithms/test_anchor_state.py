"""Comparison at equal states: worked numbers, states that nobody shares, and what counts once."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.anchor_state import anchor_state_advantage, anchor_state_parts
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import UNSCORED, ZERO_CONTRAST
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixtures


def episodes(states, rewards, *, final=None, groups=None, tokens=1):
    """One row an episode, one turn a state, `tokens` action tokens a turn; a turn's reward stands on its last token."""
    lengths = [len(row) * tokens for row in states]
    flat = [reward if place == tokens - 1 else 0.0 for row in rewards for reward in row for place in range(tokens)]
    inputs = credit_inputs(final or [0.0] * len(states), groups=groups, lengths=lengths, step_rewards=flat)
    turn = [turn for row in states for turn in range(len(row)) for _ in range(tokens)]
    state = [ord(one) if one != "?" else -1 for row in states for one in row for _ in range(tokens)]
    return replace(
        inputs, turn_index=torch.tensor(turn, dtype=torch.int64), state_index=torch.tensor(state, dtype=torch.int64)
    )


@pytest.mark.parametrize("tokens", [1, 3])
@pytest.mark.parametrize("worked", method_fixtures("M15"), ids=lambda one: one.id)
def test_it_matches_the_worked_numbers_however_many_tokens_a_turn_has(worked, tokens):
    scaling = "std" if worked.input["norm"] == "mean_std_norm" else "none"
    inputs = episodes(["".join(row) for row in worked.input["state"]], worked.input["r"], tokens=tokens)
    parts = anchor_state_parts(inputs, scaling=scaling)
    credit = anchor_state_advantage(inputs, scaling=scaling)
    flat = {name: [value for row in worked.expect[name] for value in row] for name in ("step_return", "A_step", "A")}
    assert parts.step_returns.tolist() == pytest.approx(flat["step_return"], abs=worked.tol)
    assert parts.step.tolist() == pytest.approx(flat["A_step"], abs=worked.tol)
    assert parts.episode.tolist() == pytest.approx(worked.expect["A_episode"], abs=worked.tol)
    assert credit.advantages[tokens - 1 :: tokens].tolist() == pytest.approx(flat["A"], abs=worked.tol)
    assert credit.untrained == {}


def test_without_a_repeated_state_it_is_the_episode_comparison():
    inputs = episodes(["ab", "cd", "e"], [[0.0, 1.0], [0.2, 0.0], [0.4]])
    totals = replace(inputs, rewards=torch.tensor([1.0, 0.2, 0.4], dtype=torch.float64))
    torch.testing.assert_close(anchor_state_advantage(inputs).advantages, center_within_group(totals).advantages)
    scaled = anchor_state_advantage(inputs, scaling="std").advantages
    torch.testing.assert_close(scaled, standardize_within_group(totals).advantages)


def test_an_unknown_state_equals_no_other():
    unknown = episodes(["a?", "b?"], [[0.0, 1.0], [0.0, 0.0]])
    distinct = episodes(["ax", "by"], [[0.0, 1.0], [0.0, 0.0]])
    assert anchor_state_advantage(unknown).advantages.equal(anchor_state_advantage(distinct).advantages)


def test_equal_states_of_other_tasks_are_not_compared():
    together = episodes(["a", "a", "a", "a"], [[1.0], [0.0], [5.0], [5.0]], groups=[0, 0, 1, 1])
    credit = anchor_state_advantage(together)
    assert credit.advantages.tolist() == [1.0, -1.0, 0.0, 0.0]
    assert credit.untrained == {2: ZERO_CONTRAST, 3: ZERO_CONTRAST}


def test_a_long_episode_counts_once_in_the_episode_part():
    inputs = episodes(["abcde", "f"], [[0.0, 0.0, 0.0, 0.0, 1.0], [0.0]])
    assert anchor_state_parts(inputs).episode.tolist() == [0.5, -0.5]


def test_level_episodes_are_still_compared_where_they_met():
    inputs = episodes(["ab", "ba"], [[0.0, 1.0], [0.0, 1.0]])
    credit = anchor_state_advantage(inputs, discount=0.5)
    assert credit.advantages.tolist() == [-0.25, 0.25, -0.25, 0.25]
    assert credit.untrained == {}


def test_the_final_reward_belongs_to_the_last_turn_and_the_episode_may_be_discounted():
    inputs = episodes(["ab", "cd"], [[0.0, 0.0], [0.0, 0.0]], final=[1.0, 0.0])
    assert anchor_state_parts(inputs, discount=0.5).step_returns.tolist() == [0.5, 1.0, 0.0, 0.0]
    assert anchor_state_parts(inputs, episode_discount=0.5).episode.tolist() == [0.25, -0.25]
    assert anchor_state_parts(inputs).episode.tolist() == [0.5, -0.5]


def test_a_group_of_one_and_an_unscored_row_teach_nothing():
    alone = anchor_state_advantage(episodes(["aab"], [[0.0, 1.0, 0.0]]))
    assert not alone.advantages.any()
    assert alone.untrained == {0: ZERO_CONTRAST}
    with_error = anchor_state_advantage(episodes(["a", "a", "a"], [[1.0], [0.0], [7.0]], final=[0.0, 0.0, None]))
    assert with_error.advantages.tolist() == [1.0, -1.0, 0.0]
    assert with_error.untrained == {2: UNSCORED}


def test_a_row_without_turns_has_its_reward_in_the_comparison():
    inputs = episodes(["a", "", "b"], [[1.0], [], [0.0]], final=[0.0, 0.5, 0.0])
    assert anchor_state_advantage(inputs).advantages.tolist() == [0.5, -0.5]


@given(st.lists(st.lists(st.tuples(st.sampled_from("abc?"), st.floats(-1, 1)), max_size=4), min_size=2, max_size=5))
def test_the_step_part_sums_to_zero_in_every_state(drawn):
    inputs = episodes(["".join(s for s, _ in row) for row in drawn], [[r for _, r in row] for row in drawn])
    step = anchor_state_parts(inputs).step
    for state in inputs.state_index.unique():
        assert abs(float(step[inputs.state_index == state].sum())) < 1e-9


def test_numbers_outside_their_range_are_refused():
    inputs = episodes(["a"], [[0.0]])
    with pytest.raises(ObjectiveError, match="'none' or 'std'"):
        anchor_state_advantage(inputs, scaling="range")  # type: ignore[arg-type]  # a wrong choice is meant
    with pytest.raises(ObjectiveError, match="the discount is 2"):
        anchor_state_advantage(inputs, discount=2.0)
