"""Running sums from the first action token of each row on, without a loop over tokens or rows, to the last bit.

The order of additions depends on a token's place among the action tokens of its row alone, so gaps, padding and
neighbouring rows change no bit.
"""

import torch
from torch import Tensor

__all__ = ["action_places", "prefix_sums"]


def action_places(mask: Tensor, row_offsets: Tensor) -> Tensor:
    """The number of each action token within its row, counted from 1.

    Args:
        mask: (T,) bool, action tokens.
        row_offsets: (rows + 1,) int64.

    Returns:
        (T,) int64; 0 at masked tokens.
    """
    running = torch.cat([mask.new_zeros(1, dtype=torch.int64), mask.cumsum(0)])
    before = running[row_offsets[:-1]].repeat_interleave(row_offsets.diff())
    return torch.where(mask, running[1:] - before, 0)


def prefix_sums(values: Tensor, mask: Tensor, row_offsets: Tensor) -> Tensor:
    """At each action token, the sum of its row's values up to it and with it.

    Args:
        values: (T,) float; masked values are not read.
        mask: (T,) bool, action tokens.
        row_offsets: (rows + 1,) int64.

    Returns:
        (T,) in the type of `values`, with gradient; 0 at masked tokens.
    """
    where = mask.nonzero().squeeze(1)
    place = action_places(mask, row_offsets)[where]
    sums = values[where]
    # After round k a sum holds the 2^k values that end at its token: rows take log2 of the longest rounds.
    reach = 1
    longest = int(place.max()) if len(place) else 0
    while reach < longest:
        earlier = torch.cat([sums.new_zeros(reach), sums[:-reach]])
        sums = torch.where(place > reach, sums + earlier, sums)
        reach *= 2
    return torch.zeros_like(values).index_copy(0, where, sums)
