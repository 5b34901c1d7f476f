"""From the return of an episode to its model calls, and from a call to its tokens (M16)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import (
    credit_of_rows,
    leave_out_empty_rows,
    places_of,
    totals_over,
    trained_tokens,
)
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.rows import row_of_tokens, row_sum

__all__ = ["broadcast_to_calls", "calls_of_rows"]

TokenCredit = Callable[[CreditInputs, Tensor], Tensor]
"""(N,) credit of each token from the inputs and the (N,) credit of its call."""


def broadcast_to_calls(
    inputs: CreditInputs,
    *,
    baseline: Literal["episode", "call"] = "episode",
    token_credit: TokenCredit | None = None,
) -> Credit:
    """Every call of an episode gets the episode's return minus the group's mean (LightningRL: arXiv:2508.03680).

    A call is a turn of a row; rows of one episode share `episode_index`.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored; turn_index (N,) int64.
        baseline: the mean counts every episode once, or once for each of its calls, so that long episodes weigh more.
        token_credit: from a call to its tokens; None copies, one that is given overrides.

    Returns:
        (N,) float64 in verifier units. Rows without a token are in no mean. A group of one, one reward level and an
        unscored row get 0 and a reason.
    """
    statistics = leave_out_empty_rows(inputs)
    mean = statistics.mean if baseline == "episode" else _mean_over_calls(inputs, statistics.is_scored)
    copied = credit_of_rows(inputs, statistics, inputs.rewards - mean)
    if token_credit is None:
        return copied
    given = token_credit(inputs, copied.advantages)
    if given.shape != copied.advantages.shape or not bool(given.isfinite().all()):
        raise ObjectiveError(
            f"token_credit gave shape {tuple(given.shape)} for {len(copied.advantages)} action tokens; give one finite "
            "advantage a token."
        )
    kept = trained_tokens(copied, inputs.row_offsets)
    return replace(copied, advantages=torch.where(kept, given.to(torch.float64), 0.0))


def calls_of_rows(inputs: CreditInputs) -> Tensor:
    """(R,) float64: the number of turns with an action token in each row; `turn_index` does not fall along a row."""
    is_first = torch.ones_like(inputs.turn_index, dtype=torch.bool)
    row = row_of_tokens(inputs.row_offsets)
    is_first[1:] = (inputs.turn_index.diff() != 0) | (row.diff() != 0)
    return row_sum(is_first.to(torch.float64), inputs.row_offsets)


def _mean_over_calls(inputs: CreditInputs, is_scored: Tensor) -> Tensor:
    """(R,) the mean of the group's rewards with each row as often as it has calls."""
    group = places_of(inputs.group_index)
    calls = torch.where(is_scored, calls_of_rows(inputs), 0.0)
    earned = calls * torch.where(is_scored, inputs.rewards, 0.0)
    return totals_over(earned, group) / totals_over(calls, group).clamp(min=1.0)
