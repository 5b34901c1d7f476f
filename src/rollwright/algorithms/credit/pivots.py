"""Which turns of an expert trace are worth practising (M18)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import EQUAL_REWARDS
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["Pivots", "find_pivots"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pivots:
    """The profile of K turns under a frozen policy."""

    mean: Tensor
    """(K,) float64, mean score of the local attempts; NaN where none was scored."""
    variance: Tensor
    """(K,) float64, over the attempts (ddof 0); 0 where all scored alike, NaN where none was scored."""
    is_pivot: Tensor
    """(K,) bool, uncertain and not yet mastered: kept for training."""


def find_pivots(scores: Tensor, *, threshold: float | None = None) -> Pivots:
    """Keep turns whose local attempts differ and whose mean score is below a threshold (PivotRL: arXiv:2603.21383).

    Each turn of an expert trace is tried G times, one turn deep, by a frozen policy; a score says how near the attempt
    came to the expert's action: 0 or 1 for functional equivalence, or a similarity.

    Args:
        scores: (K, G) float64 in [0, 1], NaN where an attempt could not be scored.
        threshold: τ; turns with a mean strictly below it are kept.

    Returns:
        The profile. A turn with fewer than two scored attempts, or with one level of scores, is no pivot.
    """
    limit = chosen("threshold", threshold, undisclosed_by="PivotRL (arXiv:2603.21383)")
    if scores.dim() != 2:
        raise ObjectiveError(f"scores have shape {tuple(scores.shape)}; give (turns, attempts).")
    exact = scores.to(torch.float64)
    is_scored = ~exact.isnan()
    if bool(((exact < 0) | (exact > 1)).any()):
        raise ObjectiveError("scores lie outside [0, 1]; a score says how near an attempt came to the expert's action.")
    count = is_scored.sum(1).to(torch.float64)
    mean = torch.where(is_scored, exact, 0.0).sum(1) / count
    distance = torch.where(is_scored, exact - mean.unsqueeze(1), 0.0)
    if exact.shape[1] == 0:
        is_level = torch.ones(len(exact), dtype=torch.bool)
    else:
        high = torch.where(is_scored, exact, -torch.inf).amax(1)
        is_level = high - torch.where(is_scored, exact, torch.inf).amin(1) <= EQUAL_REWARDS
    variance = torch.where(is_level & (count > 0), 0.0, distance.square().sum(1) / count)
    return Pivots(mean=mean, variance=variance, is_pivot=(variance > 0) & (count > 1) & (mean < limit))
