"""Which tokens of an update are chosen by a stage: how many, the largest ones, and where a surrogate reads them."""

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.stages import made_by

__all__ = ["largest_share", "made_selection", "number_selected"]


def number_selected(mask: Tensor, share: float) -> int:
    """⌊share·N⌋ of the N tokens of (T,) bool `mask`, at least one where there is any."""
    if not 0.0 < share <= 1.0:
        raise ObjectiveError(f"the share of chosen tokens is {share}; it is in (0, 1].")
    count = int(mask.sum())
    return min(count, max(1, int(share * count)))


def largest_share(values: Tensor, mask: Tensor, share: float) -> Tensor:
    """(T,) bool: the ⌊share·N⌋ tokens under (T,) bool `mask` with the largest of (T,) `values`; equal ones in order."""
    count = number_selected(mask, share)
    if count == 0:
        return torch.zeros_like(mask)
    least = values.masked_fill(~mask, -torch.inf).topk(count).values[-1]
    is_above, is_level = mask & (values > least), mask & (values == least)
    return is_above | (is_level & (is_level.cumsum(0) <= count - is_above.sum()))


def made_selection(streams: TokenStreams, name: str) -> Tensor:
    """(T,) bool that the update stage of this name made; refuses a piece without it."""
    return streams.action_mask & (made_by(streams, name) != 0)
