"""Credit by what an episode still earns from a token on (M01)."""

import torch

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.groups import UNSCORED, broadcast_to_tokens, rows_where
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.scans import discounted_sums

__all__ = ["return_to_go"]


def return_to_go(inputs: CreditInputs, *, discount: float = 1.0, baseline: float = 0.0) -> Credit:
    """Discounted sum of the rewards from each action token on, minus a constant baseline (REINFORCE).

    The row's reward stands on its last action token; rewards on the way stand where `step_rewards` has them. Only
    action tokens discount: what a tool or the environment wrote takes no time.

    Args:
        inputs: rows; rewards (R,) float64, NaN where unscored; step_rewards (N,) float64.
        discount: γ in [0, 1].
        baseline: must not depend on the sampled action, verifier units.

    Returns:
        (N,) float64 in verifier units; an unscored row gets 0 and a reason.
    """
    if not 0.0 <= discount <= 1.0:
        raise ObjectiveError(f"the discount is {discount}; it lies between 0 and 1.")
    is_scored = ~inputs.rewards.isnan()
    offsets = inputs.row_offsets
    rewards = inputs.step_rewards.to(torch.float64).clone()
    has_tokens = offsets.diff() > 0
    rewards[offsets[1:][has_tokens] - 1] += torch.where(is_scored, inputs.rewards, 0.0)[has_tokens]
    returns = discounted_sums(rewards, offsets, discount)
    return Credit(
        advantages=torch.where(broadcast_to_tokens(is_scored, offsets), returns - baseline, 0.0),
        value_targets=None,
        untrained=dict.fromkeys(rows_where(~is_scored), UNSCORED),
    )
