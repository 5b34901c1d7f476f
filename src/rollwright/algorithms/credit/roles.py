"""Rewards and training by role, for episodes that several agents share (M17)."""

from dataclasses import replace
from typing import Literal

import torch

from rollwright.algorithms.credit.groups import broadcast_to_tokens, rows_where
from rollwright.algorithms.credit.successes import REJECTED
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.rows import row_sum
from rollwright.algorithms.streams import key_of, value_of

__all__ = ["blend_rewards", "freeze_roles"]


def blend_rewards(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    trajectory: float,
    role: float,
    turn: float,
    turns: Literal["on_the_way", "in_total"] = "on_the_way",
) -> Credit:
    """Trajectory, role and turn rewards with declared weights, before any credit (UnityMAS-O names the three).

    Args:
        inputs: rows; rewards (R,) are the trajectory's; `role_reward` (R,) among the values, where `role` is not 0;
            step_rewards (N,) are the turns'.
        credit: the estimator that follows.
        trajectory: weight of the trajectory's reward.
        role: weight of the row's role reward.
        turn: weight of the turns' rewards.
        turns: leave turn rewards where they fell, for credit that reads them, or add them to the row's reward.

    Returns:
        The estimator's credit. A row that lacks its trajectory or its role reward is unscored.
    """
    rewards = trajectory * inputs.rewards
    if role != 0.0:
        rewards = rewards + role * value_of(inputs, "role_reward")
    paid = turn * inputs.step_rewards
    if turns == "in_total":
        rewards = rewards + row_sum(paid, inputs.row_offsets)
        paid = torch.zeros_like(paid)
    return credit(replace(inputs, rewards=rewards, step_rewards=paid))


def freeze_roles(inputs: CreditInputs, *, credit: CreditFn, roles: tuple[int, ...]) -> Credit:
    """Rows of these roles are withheld after credit; their rewards stay in the statistics of the others.

    Args:
        inputs: rows; `role` (R,) int64 among the keys.
        credit: the estimator that comes before.
        roles: values of `role` that are not trained.

    Returns:
        The estimator's credit with those rows at 0; they leave the denominators, as rows withheld by a rule do.
    """
    role = key_of(inputs, "role")
    is_frozen = torch.isin(role, torch.tensor(roles, dtype=role.dtype))
    given = credit(inputs)
    return replace(
        given,
        advantages=torch.where(broadcast_to_tokens(is_frozen, inputs.row_offsets), 0.0, given.advantages),
        untrained={**dict.fromkeys(rows_where(is_frozen), REJECTED), **given.untrained},
    )
