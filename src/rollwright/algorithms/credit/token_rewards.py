"""Where a row's rewards stand on its action tokens: the verifier's on the last, others where they fell."""

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import UNSCORED, broadcast_to_tokens, rows_where
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["credit_of_scored", "rewards_on_tokens"]


def rewards_on_tokens(inputs: CreditInputs) -> Tensor:
    """(N,) float64 verifier units: `step_rewards`, and each row's reward on its last action token.

    An unscored row has its rewards on the way alone; the reward of a row without action tokens stands nowhere (E3).
    """
    rewards = inputs.step_rewards.to(torch.float64).clone()
    offsets = inputs.row_offsets
    has_tokens = offsets.diff() > 0
    final = torch.where(inputs.rewards.isnan(), 0.0, inputs.rewards)
    rewards[offsets[1:][has_tokens] - 1] += final[has_tokens]
    return rewards


def credit_of_scored(inputs: CreditInputs, advantages: Tensor, value_targets: Tensor | None) -> Credit:
    """The credit of these (N,) advantages and targets: 0 in unscored rows, which get their reason (E5)."""
    is_scored = ~inputs.rewards.isnan()
    if bool(is_scored.all()):
        return Credit(advantages=advantages, value_targets=value_targets, untrained={})
    here = broadcast_to_tokens(is_scored, inputs.row_offsets)
    return Credit(
        advantages=torch.where(here, advantages, 0.0),
        value_targets=None if value_targets is None else torch.where(here, value_targets, 0.0),
        untrained=dict.fromkeys(rows_where(~is_scored), UNSCORED),
    )
