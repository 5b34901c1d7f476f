"""Treatments of truncated episodes, each a stage around a credit function (M105, M87).

`negative` and `soft_penalty` change the reward, `exclude` removes it from the group, `mask` withholds the row after
credit. Resuming an episode is the runtime's. Stages nest: `partial(mask_truncated, credit=partial(...))`.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import broadcast_to_tokens, rows_where
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs

__all__ = [
    "TRUNCATED",
    "exclude_truncated",
    "mask_truncated",
    "overlong_penalty",
    "penalize_overlong",
    "punish_truncated",
]

TRUNCATED = "truncated"

BeyondLimit = Literal["flat", "falling"]
"""What the soft penalty does beyond its limit."""


def punish_truncated(inputs: CreditInputs, *, credit: CreditFn, reward: float = 0.0) -> Credit:
    """`negative`: a truncated row has this reward and stays in its group, whatever the verifier gave to its part.

    Args:
        inputs: rows of whole groups.
        credit: the estimator that follows.
        reward: verifier units; 0 is a failure.

    Returns:
        The estimator's credit. A truncated row without score stays unscored: an error is no reward.
    """
    is_punished = inputs.is_truncated & ~inputs.rewards.isnan()
    return credit(replace(inputs, rewards=torch.where(is_punished, reward, inputs.rewards)))


def mask_truncated(inputs: CreditInputs, *, credit: CreditFn) -> Credit:
    """`mask`: a truncated row is withheld after credit; its reward, as scored, stays in the group's statistics.

    Args:
        inputs: rows of whole groups.
        credit: the estimator that comes before.

    Returns:
        The estimator's credit with truncated rows at 0 and their reason `truncated`.
    """
    given = credit(inputs)
    is_masked = broadcast_to_tokens(inputs.is_truncated, inputs.row_offsets)
    return replace(
        given,
        advantages=torch.where(is_masked, 0.0, given.advantages),
        untrained={**given.untrained, **dict.fromkeys(_truncated_and_scored(inputs), TRUNCATED)},
    )


def exclude_truncated(inputs: CreditInputs, *, credit: CreditFn) -> Credit:
    """`exclude`: a truncated row leaves the group's statistics and the update.

    Args:
        inputs: rows of whole groups.
        credit: the estimator that follows.

    Returns:
        The estimator's credit over the other rows; truncated rows have 0 and their reason `truncated`.
    """
    given = credit(replace(inputs, rewards=torch.where(inputs.is_truncated, torch.nan, inputs.rewards)))
    reasons = dict.fromkeys(_truncated_and_scored(inputs), TRUNCATED)
    return replace(given, untrained={**given.untrained, **reasons})


def penalize_overlong(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    max_tokens: int,
    buffer_tokens: int,
    factor: float = 1.0,
    beyond: BeyondLimit = "flat",
) -> Credit:
    """`soft_penalty`: `overlong_penalty` of the row's action tokens is added to its reward before credit (DAPO).

    Args:
        inputs: rows of whole groups.
        credit: the estimator that follows.
        max_tokens: L, action tokens of a row.
        buffer_tokens: C, width of the ramp that ends at L.
        factor: what the penalty is multiplied with, verifier units.
        beyond: flat beyond L, or falling on as public code has it.

    Returns:
        The estimator's credit; what tools and the environment wrote has no length here.
    """
    penalty = overlong_penalty(
        inputs.row_offsets.diff(), max_tokens=max_tokens, buffer_tokens=buffer_tokens, factor=factor, beyond=beyond
    )
    return credit(replace(inputs, rewards=inputs.rewards + penalty))


def overlong_penalty(
    lengths: Tensor, *, max_tokens: int, buffer_tokens: int, factor: float = 1.0, beyond: BeyondLimit = "flat"
) -> Tensor:
    """0 up to L − C, then a ramp that reaches −factor at L, and −factor beyond (arXiv:2503.14476).

    Args:
        lengths: (R,) int64, action tokens.
        max_tokens: L.
        buffer_tokens: C, in 1…L.
        factor: depth of the penalty, verifier units, at least 0.
        beyond: `falling` lets the ramp go on beyond L (verl, AReaL).

    Returns:
        (R,) float64, at most 0, verifier units; at least −factor under `flat`.
    """
    if not 1 <= buffer_tokens <= max_tokens:
        raise ObjectiveError(
            f"soft_penalty has a buffer of {buffer_tokens} tokens before {max_tokens}; the buffer is the width of the "
            "ramp, between 1 and the longest length."
        )
    if not factor >= 0:
        raise ObjectiveError(f"soft_penalty has factor {factor}; a penalty is at least 0.")
    start = max_tokens - buffer_tokens
    ramp = ((start - lengths).to(torch.float64) / buffer_tokens).clamp(max=0.0)
    return factor * (ramp.clamp(min=-1.0) if beyond == "flat" else ramp)


def _truncated_and_scored(inputs: CreditInputs) -> Iterable[int]:
    """Rows that are withheld for being truncated; a row without score is `unscored` first."""
    return rows_where(inputs.is_truncated & ~inputs.rewards.isnan())
