"""Credit by what an episode still earns from a token on (M01)."""

import math

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import check_fraction
from rollwright.algorithms.credit.groups import broadcast_to_tokens
from rollwright.algorithms.credit.token_rewards import credit_of_scored, rewards_on_tokens
from rollwright.algorithms.errors import ObjectiveError
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
    check_fraction("the discount", discount)
    if not math.isfinite(baseline):
        raise ObjectiveError(f"the baseline is {baseline}; it is a finite reward.")
    return credit_of_scored(inputs, _returns(inputs, discount) - baseline, None)


def _returns(inputs: CreditInputs, discount: float) -> Tensor:
    """(N,) float64 discounted sums."""
    if discount == 1.0 and not bool(inputs.step_rewards.any()):
        # An outcome alone, undiscounted, is the same from every token on: the numbers of the scan without the scan.
        return broadcast_to_tokens(torch.where(inputs.rewards.isnan(), 0.0, inputs.rewards), inputs.row_offsets)
    return discounted_sums(rewards_on_tokens(inputs), inputs.row_offsets, discount)
