"""Generalized advantage estimation over turns: one value and one worth a turn (M14)."""

import torch

from rollwright.algorithms.credit.bootstrapping import (
    Truncation,
    bootstrap_of_rows,
    check_fraction,
    next_values,
)
from rollwright.algorithms.credit.token_rewards import credit_of_scored, rewards_on_tokens
from rollwright.algorithms.credit.turns import turns_of
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import value_of

__all__ = ["turn_level_advantage"]


def turn_level_advantage(
    inputs: CreditInputs, *, discount: float, decay: float, truncation: Truncation = "bootstrap"
) -> Credit:
    """GAE in which a turn is one step; all its action tokens get its advantage (ArCHer: arXiv:2402.19446).

    Args:
        inputs: rows with `turn_index` (N,) and `predicted` (N,) values; the value at a turn's first action token is
            that of the state before the turn, the others are not read. `bootstrap` (R,) under "bootstrap".
        discount: γ a turn, in [0, 1].
        decay: λ a turn, in [0, 1].
        truncation: whether the critic's value follows a truncated row, or nothing.

    Returns:
        (N,) float64 advantages and value targets in verifier units, equal within a turn; an unscored row gets 0 and a
        reason.
    """
    check_fraction("the discount", discount)
    check_fraction("the decay", decay)
    turns = turns_of(inputs)
    values = value_of(inputs, "predicted").to(torch.float64)[turns.starts]
    rewards = turns.sum_of(rewards_on_tokens(inputs))
    following = next_values(values, turns.row_offsets, bootstrap_of_rows(inputs, truncation))
    residuals = rewards + discount * following - values
    ahead = backward_scan(residuals, torch.full_like(residuals, discount * decay), turns.row_offsets)
    return credit_of_scored(inputs, ahead[turns.of_token], (ahead + values)[turns.of_token])
