"""GAE over action tokens: gaps, cut-offs, a λ for the critic, and a λ by length."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rollwright.algorithms.credit.bootstrapping import Truncation
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.groups import UNSCORED
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import case, method_fixture


def rows(step_rewards, values, *, lengths=None, rewards=None, bootstrap=None, truncated=None, episodes=None):
    """Rows of action tokens with a critic; by default one row whose verifier gave nothing."""
    lengths = lengths or [len(values)]
    inputs = credit_inputs(
        rewards or [0.0] * len(lengths),
        lengths=lengths,
        step_rewards=step_rewards,
        truncated=truncated,
        episodes=episodes,
    )
    behind = bootstrap or [0.0] * len(lengths)
    return replace(
        inputs,
        values={
            "predicted": torch.tensor(values, dtype=torch.float64),
            "bootstrap": torch.tensor(behind, dtype=torch.float64),
        },
    )


def near(expected):
    return pytest.approx(expected, abs=1e-9, nan_ok=True)


@pytest.mark.case("F54")
def test_observation_tokens_take_no_step_and_their_values_are_never_read():
    given_case = case("F54")
    mask = given_case.input["mask"]
    kept = [place for place, is_action in enumerate(mask) if is_action]
    inputs = rows(
        [given_case.input["rewards"][place] for place in kept], [given_case.input["values"][place] for place in kept]
    )
    credit = generalized_advantage(inputs, policy_lambda=given_case.input["lambda"], value_lambda=0.9)
    assert credit.advantages.tolist() == near([given_case.expect["advantages"][place] for place in kept])
    assert credit.value_targets is not None
    assert credit.value_targets.tolist() == near(given_case.expect["returns_at_model_tokens"])
    every = rows(given_case.input["rewards"], given_case.input["values"])
    wrong = generalized_advantage(every, policy_lambda=0.9, value_lambda=0.9).advantages.tolist()
    assert wrong == near(given_case.expect["wrong_if_all_tokens_are_steps"])


@pytest.mark.case("F57")
@pytest.mark.row("S152")
def test_a_cut_off_row_is_followed_by_the_value_behind_it_and_a_finished_one_by_nothing():
    given_case = case("F57")
    behind = given_case.input["value_of_state_after_last_token"]

    def advantages(*, truncated, truncation: Truncation = "bootstrap", value=behind):
        inputs = rows(given_case.input["rewards"], given_case.input["values"], bootstrap=[value], truncated=[truncated])
        return generalized_advantage(inputs, truncation=truncation).advantages.tolist()

    assert advantages(truncated=0) == near(given_case.expect["terminated"])
    assert advantages(truncated=1) == near(given_case.expect["truncated_bootstrap"])
    assert advantages(truncated=1, truncation="terminal") == near(given_case.expect["terminated"])
    last = given_case.input["values"][-1]
    assert advantages(truncated=1, value=last) == near(
        given_case.expect["wrong_bootstrap_from_last_state_instead_of_next"]
    )


def test_the_bootstrap_of_a_finished_row_is_never_read():
    values = {"lengths": [2, 1], "truncated": [0, 1]}
    one = rows([0.0, 1.0, 0.0], [0.5, 0.4, 0.3], bootstrap=[float("nan"), 0.7], **values)
    other = rows([0.0, 1.0, 0.0], [0.5, 0.4, 0.3], bootstrap=[9.0, 0.7], **values)
    assert generalized_advantage(one).advantages.equal(generalized_advantage(other).advantages)


@pytest.mark.row("S154")
def test_the_critic_learns_the_monte_carlo_return_while_the_policy_looks_less_far():
    inputs = rows([0.0, 0.0, 1.0], [0.5, 0.6, 0.7])
    credit = generalized_advantage(inputs, policy_lambda=0.95, value_lambda=1.0)
    assert credit.value_targets is not None
    assert credit.value_targets.tolist() == near(return_to_go(inputs).advantages.tolist())
    assert credit.value_targets.tolist() == near([1.0, 1.0, 1.0])
    assert credit.advantages.tolist() == near([0.1 + 0.95 * (0.1 + 0.95 * 0.3), 0.1 + 0.95 * 0.3, 0.3])
    worked = method_fixture("M13.b")
    half = generalized_advantage(inputs, policy_lambda=0.5)
    assert half.advantages.tolist() == near(worked.expect["A"])


@pytest.mark.row("S155")
def test_lambda_follows_the_length_of_each_row_and_alpha_has_no_default():
    lengths = [10, 20, 100, 1000]
    expected = [0.0, 0.0, 0.8, 0.98]
    assert LengthAdaptive(alpha=0.05)(torch.tensor(lengths)).tolist() == near(expected)
    inputs = rows([0.0] * sum(lengths), torch.linspace(0, 1, sum(lengths)).tolist(), lengths=lengths)
    adaptive = generalized_advantage(inputs, policy_lambda=LengthAdaptive(alpha=0.05)).advantages
    ends = inputs.row_offsets.tolist()
    for row, decay in enumerate(expected):
        fixed = generalized_advantage(inputs, policy_lambda=decay).advantages
        here = slice(ends[row], ends[row + 1])
        torch.testing.assert_close(adaptive[here], fixed[here], rtol=0, atol=1e-12)
    with pytest.raises(ObjectiveError, match="alpha has no default: Seed1.5-Thinking did not disclose it"):
        LengthAdaptive()
    with pytest.raises(ObjectiveError, match="above 0"):
        LengthAdaptive(alpha=0.0)


def test_an_episode_may_be_the_length_that_lambda_follows():
    inputs = rows([0.0] * 5, [0.1, 0.2, 0.3, 0.4, 0.5], lengths=[2, 3], episodes=[0, 0])
    by_episode = generalized_advantage(inputs, policy_lambda=LengthAdaptive(alpha=1.0, over="episode"))
    torch.testing.assert_close(by_episode.advantages, generalized_advantage(inputs, policy_lambda=0.8).advantages)


@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=5),
    st.floats(0, 1),
    st.floats(0, 1),
    st.integers(0, 99),
)
def test_it_is_its_recurrence_in_every_row(lengths, discount, decay, seed):
    generator = torch.Generator().manual_seed(seed)
    step_rewards, values = torch.randn(2, sum(lengths), generator=generator, dtype=torch.float64).tolist()
    behind = torch.randn(len(lengths), generator=generator, dtype=torch.float64).tolist()
    truncated = [row % 2 for row in range(len(lengths))]
    inputs = rows(step_rewards, values, lengths=lengths, bootstrap=behind, truncated=truncated)
    found = generalized_advantage(inputs, discount=discount, policy_lambda=decay).advantages.tolist()
    end = 0
    for row, length in enumerate(lengths):
        start, end = end, end + length
        following, ahead = (behind[row] if truncated[row] else 0.0), 0.0
        for place in range(end - 1, start - 1, -1):
            ahead = step_rewards[place] + discount * following - values[place] + discount * decay * ahead
            following = values[place]
            assert found[place] == pytest.approx(ahead, abs=1e-9)


def test_with_both_lambdas_one_advantage_is_return_minus_value():
    inputs = rows([0.0, 0.5, 0.0, 0.0], [0.5, 0.4, 0.2, 0.9], lengths=[3, 1], rewards=[1.0, -1.0])
    credit = generalized_advantage(inputs, discount=0.9)
    expected = return_to_go(inputs, discount=0.9).advantages - inputs.values["predicted"]
    torch.testing.assert_close(credit.advantages, expected)


def test_an_unscored_row_has_no_advantage_no_target_and_a_reason():
    credit = generalized_advantage(rows([0.0] * 3, [0.5, 0.4, 0.2], lengths=[2, 1], rewards=[None, 1.0]))
    assert credit.advantages.tolist() == near([0.0, 0.0, 0.8])
    assert credit.value_targets is not None
    assert credit.value_targets.tolist() == near([0.0, 0.0, 1.0])
    assert credit.untrained == {0: UNSCORED}


def test_a_value_that_is_not_finite_spoils_what_looks_ahead_to_it_and_no_other_row():
    clean = rows([0.0] * 5, [0.5, 0.4, 0.2, 0.3, 0.1], lengths=[1, 3, 1], rewards=[1.0, 1.0, 1.0])
    spoiled = rows([0.0] * 5, [0.5, 0.4, float("nan"), 0.3, 0.1], lengths=[1, 3, 1], rewards=[1.0, 1.0, 1.0])
    expected = generalized_advantage(clean, policy_lambda=0.9).advantages
    expected[1:3] = float("nan")
    assert generalized_advantage(spoiled, policy_lambda=0.9).advantages.tolist() == near(expected.tolist())


def test_what_is_missing_or_wrong_is_named():
    inputs = rows([0.0, 0.0], [0.5, 0.4])
    with pytest.raises(ObjectiveError, match="`predicted` values, but the batch has"):
        generalized_advantage(replace(inputs, values={}))
    with pytest.raises(ObjectiveError, match=r"`predicted` values have shape \(1,\); this batch needs \(2,\)"):
        generalized_advantage(replace(inputs, values={**inputs.values, "predicted": torch.zeros(1)}))
    with pytest.raises(ObjectiveError, match="`bootstrap` values"):
        generalized_advantage(replace(inputs, values={"predicted": inputs.values["predicted"]}))
    for wrong in (
        partial(generalized_advantage, discount=1.5),
        partial(generalized_advantage, policy_lambda=-0.1),
        partial(generalized_advantage, value_lambda=2.0),
    ):
        with pytest.raises(ObjectiveError, match="lies between 0 and 1"):
            wrong(inputs)
    with pytest.raises(ObjectiveError, match="'bootstrap' or 'terminal'"):
        generalized_advantage(inputs, truncation="maybe")  # type: ignore[arg-type]  # a wrong choice is meant
