"""A KL to the reference as part of the reward (M82)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.credit.groups import ZERO_CONTRAST, broadcast_to_tokens
from rollwright.algorithms.objective import Controller, Credit, CreditFn, CreditInputs
from rollwright.algorithms.rows import row_sum
from rollwright.algorithms.streams import logprobs_of

__all__ = ["kl_in_reward", "kl_penalties"]

Place = Literal["step_rewards", "row_rewards", "advantages"]
"""Where the penalty goes: to the reward of each token, for credits that sum rewards on the way; to the row's reward as
a sum, which changes the statistics of a group; or to the advantage of each token, after the group was centred."""


def kl_in_reward(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    coefficient: float | Controller,
    place: Place = "step_rewards",
    scored_by: str = "proximal",
) -> Credit:
    """r_t −= β(o_t − f_t), then credit: never together with a KL in the loss.

    Args:
        inputs: rows with the log-probabilities `scored_by` and `reference`.
        credit: the estimator that follows. Under `step_rewards` it must read them, such as `return_to_go`.
        coefficient: β, or what controls it, such as `AdaptiveKl`.
        place: where the penalty goes.
        scored_by: o, scores of the policy before the update: proximal, or behavior.

    Returns:
        The estimator's credit. A token whose scores are not finite has no penalty. Under `advantages` a row without
        contrast has the penalty alone; an unscored or withheld row stays at 0.
    """
    penalties = kl_penalties(inputs, coefficient=coefficient_of(coefficient), scored_by=scored_by)
    return _PLACED[place](inputs, credit, penalties)


def kl_penalties(inputs: CreditInputs, *, coefficient: float, scored_by: str = "proximal") -> Tensor:
    """(N,) float64: −β(o − f), detached, signed as k1 is; 0 where a score is not finite."""
    distance = (logprobs_of(inputs, scored_by) - logprobs_of(inputs, "reference")).to(torch.float64).detach()
    return distance.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0).mul_(-coefficient)


def _in_step_rewards(inputs: CreditInputs, credit: CreditFn, penalties: Tensor) -> Credit:
    return credit(replace(inputs, step_rewards=inputs.step_rewards + penalties))


def _in_row_rewards(inputs: CreditInputs, credit: CreditFn, penalties: Tensor) -> Credit:
    return credit(replace(inputs, rewards=inputs.rewards + row_sum(penalties, inputs.row_offsets)))


def _in_advantages(inputs: CreditInputs, credit: CreditFn, penalties: Tensor) -> Credit:
    given = credit(inputs)
    is_out = torch.zeros_like(inputs.rewards, dtype=torch.bool)
    is_out[[row for row, reason in given.untrained.items() if reason != ZERO_CONTRAST]] = True
    stays = ~broadcast_to_tokens(is_out, inputs.row_offsets)
    return replace(given, advantages=torch.where(stays, given.advantages + penalties, given.advantages))


_PLACED: dict[Place, Callable[[CreditInputs, CreditFn, Tensor], Credit]] = {
    "step_rewards": _in_step_rewards,
    "row_rewards": _in_row_rewards,
    "advantages": _in_advantages,
}
