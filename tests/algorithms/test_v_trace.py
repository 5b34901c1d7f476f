"""V-trace against its numbers, its limits, and what must not be read."""

from dataclasses import replace

import pytest
import torch

from rollwright.algorithms.credit.generalized_advantage import generalized_advantage
from rollwright.algorithms.credit.v_trace import v_trace
from rollwright.algorithms.errors import ObjectiveError
from tests.algorithms.pieces import credit_inputs
from tests.cases import method_fixture


def row(rho, values, step_rewards, *, bootstrap=0.0, truncated=0):
    inputs = credit_inputs([0.0], lengths=[len(rho)], step_rewards=step_rewards, truncated=[truncated])
    ratio = torch.tensor(rho, dtype=torch.float64).log()
    return replace(
        inputs,
        logprobs={"behavior": torch.full_like(ratio, -1.0), "proximal": ratio - 1.0},
        values={
            "predicted": torch.tensor(values, dtype=torch.float64),
            "bootstrap": torch.tensor([bootstrap], dtype=torch.float64),
        },
    )


def targets(credit):
    assert credit.value_targets is not None
    return credit.value_targets.tolist()


@pytest.mark.row("S173")
def test_each_cap_changes_the_target_as_by_hand():
    worked = method_fixture("M45.a")
    inputs = row([2.0, 0.5, 1.0], [0.5, 0.6, 0.7], [0.0, 0.0, 1.0])
    capped = v_trace(inputs, discount=0.9)
    assert targets(capped) == pytest.approx(worked.expect["vs"], abs=1e-9)
    assert capped.advantages.tolist() == pytest.approx(worked.expect["pg_adv"], abs=1e-9)
    # δ₁ = 2·(0.9·0.6 − 0.5) = 0.08 under ρ̄ 2, and v₁ = 0.5 + 0.08 + 0.9·c̄·0.15.
    wide = v_trace(inputs, discount=0.9, rho_bar=2.0)
    assert targets(wide)[0] == pytest.approx(0.5 + 0.08 + 0.9 * 0.15)
    wider = v_trace(inputs, discount=0.9, rho_bar=2.0, c_bar=2.0)
    assert targets(wider)[0] == pytest.approx(0.5 + 0.08 + 0.9 * 2.0 * 0.15)
    assert wide.advantages[0] == pytest.approx(2.0 * (0.9 * 0.75 - 0.5))


def test_on_policy_without_caps_it_is_the_return():
    inputs = row([1.0, 1.0, 1.0], [0.5, 0.6, 0.7], [0.1, 0.0, 1.0], bootstrap=0.4, truncated=1)
    credit = v_trace(inputs, discount=0.9, rho_bar=torch.inf, c_bar=torch.inf)
    expected = generalized_advantage(inputs, discount=0.9)
    torch.testing.assert_close(credit.advantages, expected.advantages)
    torch.testing.assert_close(credit.value_targets, expected.value_targets)


def test_a_token_of_ratio_zero_passes_nothing_back():
    inputs = row([1.0, 1e-30, 1.0], [0.5, 0.6, 0.7], [0.0, 0.0, 100.0])
    assert targets(v_trace(inputs)) == pytest.approx([0.6, 0.6, 100.0], abs=1e-6)


def test_a_missing_behavior_score_spoils_what_looks_ahead_to_it_alone():
    inputs = row([1.0, 1.0, 1.0], [0.5, 0.6, 0.7], [0.0, 0.0, 1.0])
    behavior = inputs.logprobs["behavior"].clone()
    behavior[1] = float("nan")
    spoiled = v_trace(replace(inputs, logprobs={**inputs.logprobs, "behavior": behavior}))
    assert spoiled.advantages.isnan().tolist() == [True, True, False]
    assert spoiled.advantages[2] == pytest.approx(0.3)


def test_caps_and_streams_are_checked():
    inputs = row([1.0], [0.5], [1.0])
    with pytest.raises(ObjectiveError, match="rho_bar is 0"):
        v_trace(inputs, rho_bar=0.0)
    with pytest.raises(ObjectiveError, match="behavior log-probabilities"):
        v_trace(replace(inputs, logprobs={"proximal": inputs.logprobs["proximal"]}))
