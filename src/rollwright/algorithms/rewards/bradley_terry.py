"""A scalar preference score learned from pairs (Bradley–Terry, M118)."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["pair_accuracy", "preference_chance", "preference_loss"]


def preference_loss(chosen: Tensor, rejected: Tensor) -> Tensor:
    """−log σ(s_w − s_l) of each pair, finite at any gap.

    Args:
        chosen: (P,) score of the preferred answer; may have a gradient.
        rejected: (P,) score of the other one, on the same prompt.

    Returns:
        (P,) of the scores' dtype; log 2 where they are equal.
    """
    return -logsigmoid(_gap(chosen, rejected))


def preference_chance(chosen: Tensor, rejected: Tensor) -> Tensor:
    """(P,) σ(s_w − s_l): how probable the model takes the preference to be."""
    return torch.sigmoid(_gap(chosen, rejected))


def pair_accuracy(chosen: Tensor, rejected: Tensor) -> float | None:
    """Share of held-out pairs whose preferred answer scores higher, ties half; None without pairs."""
    gap = _gap(chosen, rejected).detach()
    right = (gap > 0).to(torch.float64) + 0.5 * (gap == 0).to(torch.float64)
    return float(right.mean()) if len(gap) else None


def _gap(chosen: Tensor, rejected: Tensor) -> Tensor:
    if chosen.shape != rejected.shape:
        raise ObjectiveError(
            f"chosen has shape {tuple(chosen.shape)} and rejected {tuple(rejected.shape)}; give pairs."
        )
    return chosen - rejected
