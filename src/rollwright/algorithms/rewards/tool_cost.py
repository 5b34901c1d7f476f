"""What tool calls cost the reward of an attempt that solved its task (M124)."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["charge_tool_calls", "less_tool_cost"]


def charge_tool_calls(
    inputs: CreditInputs, *, credit: CreditFn, cost: float, cap: float, success_at: float = 1.0
) -> Credit:
    """`less_tool_cost` of the rows' rewards, then credit.

    Args:
        inputs: rows with the value `tool_calls` (R,).
        credit: the estimator that follows.
        cost: of one call, verifier units.
        cap: of all calls of an attempt.
        success_at: reward from which an attempt is right.

    Returns:
        The estimator's credit.
    """
    calls = value_of(inputs, "tool_calls")
    return credit(
        replace(inputs, rewards=less_tool_cost(inputs.rewards, calls, cost=cost, cap=cap, success_at=success_at))
    )


def less_tool_cost(
    rewards: Tensor, calls: Tensor, *, cost: float, cap: float, success_at: float = 1.0, failure: float = 0.0
) -> Tensor:
    """R − min(cap, cost·calls) where R ≥ success_at: cheaper successes are better, and every success beats a failure.

    Args:
        rewards: (R,) float64, NaN where unscored.
        calls: (R,) tool calls of the attempt.
        cost: of one call, at least 0.
        cap: of all calls, below success_at − failure: a penalty never turns a success into less than a failure.
        success_at: reward from which an attempt is right.
        failure: reward of a wrong attempt.

    Returns:
        (R,) float64; a failed and an unscored attempt pay nothing.
    """
    if cost < 0 or not 0 <= cap < success_at - failure:
        raise ObjectiveError(
            f"cost is {cost} and cap {cap}; cost is at least 0 and cap below {success_at - failure:g}, what a success "
            "is worth more than a failure."
        )
    charged = rewards - (cost * calls.to(torch.float64)).clamp(max=cap)
    return torch.where(rewards >= success_at, charged, rewards)
