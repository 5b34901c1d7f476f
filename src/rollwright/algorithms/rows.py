"""Reductions over the rows of a packed stream, and back: without a loop over rows or tokens, with gradients.

Every function takes (T,) values and (rows + 1,) int64 offsets; a padded [B, T] batch is the same with uniform offsets.
"""

import torch
from torch import Tensor

__all__ = ["row_count", "row_of_tokens", "row_max", "row_mean", "row_min", "row_sum", "spread_rows"]


def row_of_tokens(row_offsets: Tensor) -> Tensor:
    """(T,) int64: the number of the row that each token stands in."""
    lengths = row_offsets.diff()
    return torch.arange(len(lengths), device=row_offsets.device).repeat_interleave(lengths)


def row_count(mask: Tensor, row_offsets: Tensor) -> Tensor:
    """(rows,) int64 number of each row's tokens that are in the (T,) bool mask."""
    running = torch.zeros(len(mask) + 1, dtype=torch.int64, device=mask.device)
    torch.cumsum(mask, 0, out=running[1:])
    return running[row_offsets].diff()


def row_sum(values: Tensor, row_offsets: Tensor) -> Tensor:
    """(rows,) sum of each row's values; 0 for an empty row. Put 0 at masked tokens first."""
    place = row_of_tokens(row_offsets)
    return values.new_zeros(len(row_offsets) - 1).index_add(0, place, values)


def row_mean(values: Tensor, mask: Tensor, row_offsets: Tensor) -> Tensor:
    """(rows,) mean of each row's values over (T,) bool `mask`; 0 for a row without such a token."""
    totals = row_sum(torch.where(mask, values, 0.0), row_offsets)
    return totals / row_count(mask, row_offsets).clamp(min=1).to(values.dtype)


def row_max(values: Tensor, mask: Tensor, row_offsets: Tensor) -> Tensor:
    """(rows,) largest value of each row over the mask; -inf for a row without such a token."""
    return _extreme(values, mask, row_offsets, "amax", -torch.inf)


def row_min(values: Tensor, mask: Tensor, row_offsets: Tensor) -> Tensor:
    """(rows,) smallest value of each row over the mask; inf for a row without such a token."""
    return _extreme(values, mask, row_offsets, "amin", torch.inf)


def spread_rows(per_row: Tensor, row_offsets: Tensor) -> Tensor:
    """(T,) from (rows,): each row's value once a token, masked or not."""
    return per_row.repeat_interleave(row_offsets.diff())


def _extreme(values: Tensor, mask: Tensor, row_offsets: Tensor, which: str, empty: float) -> Tensor:
    start = values.new_full((len(row_offsets) - 1,), empty)
    place = row_of_tokens(row_offsets)[mask]
    return start.scatter_reduce(0, place, values[mask], which, include_self=True)
