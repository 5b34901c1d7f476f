"""Imitation of the policy's own successes (M34)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import UNSCORED, broadcast_to_tokens, rows_where
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["REJECTED", "SuccessTarget", "condition_on_success", "imitate_successes"]

REJECTED = "rejected"
"""Reason of a row that failed; it leaves the denominators, as a row withheld by a rule does."""


def imitate_successes(inputs: CreditInputs, *, threshold: float = 1.0) -> Credit:
    """Advantage 1 on the tokens of rows with at least this reward, 0 elsewhere.

    STaR (arXiv:2203.14465), ReST-EM (arXiv:2312.06585). With `log_likelihood` as surrogate it is supervised learning on
    what a verifier let pass; with `PromptMean` each task weighs the same however often it was solved, and one that was
    never solved drops out.

    Args:
        inputs: rows; rewards (R,) float64, NaN where unscored.
        threshold: τ, verifier units.

    Returns:
        (N,) float64, 0 or 1. Failures learn nothing: they, and unscored rows, have a reason.
    """
    is_scored = ~inputs.rewards.isnan()
    is_success = inputs.rewards >= threshold
    return Credit(
        advantages=broadcast_to_tokens(is_success.to(torch.float64), inputs.row_offsets),
        value_targets=None,
        untrained={
            **dict.fromkeys(rows_where(is_scored & ~is_success), REJECTED),
            **dict.fromkeys(rows_where(~is_scored), UNSCORED),
        },
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SuccessTarget:
    """What imitation of successes aims at."""

    target: Tensor
    """(n,) float64, π(y | success); all zero where no success is possible: the task drops out."""
    chance: float
    """Of a success under the policy that sampled."""


def condition_on_success(probabilities: Tensor, is_success: Tensor) -> SuccessTarget:
    """The policy that sampled, given success: π(y | success) ∝ π(y)·1{success}.

    Args:
        probabilities: (n,) of the outcomes under the policy that sampled, summing to at most 1.
        is_success: (n,) bool.

    Returns:
        The target and the chance of a success.
    """
    if probabilities.shape != is_success.shape:
        raise ObjectiveError(f"{len(probabilities)} probabilities have {len(is_success)} outcomes; give one each.")
    kept = torch.where(is_success, probabilities.to(torch.float64), 0.0)
    chance = float(kept.sum())
    return SuccessTarget(target=kept / chance if chance > 0 else kept, chance=chance)
