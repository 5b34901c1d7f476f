"""Recurrences that run backward through the tokens of each row, without a loop over tokens or rows.

x_t = v_t + d_t · x_{t+1} inside a row, with nothing behind its last token: returns, GAE and V-trace.
The stream is folded into blocks of a fixed width: all blocks run side by side, and what each hands to the one before it
is the same recurrence, on a stream that is shorter by the width.
"""

import torch
from torch import Tensor

__all__ = ["backward_scan", "discounted_sums", "running_sums"]

_WIDTH = 64


def discounted_sums(values: Tensor, row_offsets: Tensor, discount: float | Tensor) -> Tensor:
    """From each token on, the sum of its row's values, discounted by distance.

    Args:
        values: (N,) float64.
        row_offsets: (R + 1,) int64 into them.
        discount: in [0, 1]; a number, or (R,) one a row.

    Returns:
        (N,) float64; rows do not meet.
    """
    if isinstance(discount, Tensor):
        decays = discount.to(values.dtype).repeat_interleave(row_offsets.diff())
    else:
        decays = torch.full_like(values, discount)
    return backward_scan(values, decays, row_offsets)


def running_sums(values: Tensor, row_offsets: Tensor) -> Tensor:
    """Up to and with each token, the sum of its row's values.

    Args:
        values: (N,) float64.
        row_offsets: (R + 1,) int64 into them.

    Returns:
        (N,) float64; rows do not meet, so a long batch loses no digits.
    """
    reversed_offsets = len(values) - row_offsets.flip(0)
    return discounted_sums(values.flip(0), reversed_offsets, 1.0).flip(0)


def backward_scan(values: Tensor, decays: Tensor, row_offsets: Tensor) -> Tensor:
    """x_t = v_t + d_t · x_{t+1} within each row.

    Args:
        values: (N,) float64 v.
        decays: (N,) float64 d; that of a row's last token is never read.
        row_offsets: (R + 1,) int64 into them.

    Returns:
        (N,) float64 x. What is not finite makes NaN of itself and of what stands before it in its row, whatever the
        decay, and of nothing else: the loss masks and counts such tokens.
    """
    lengths = row_offsets.diff()
    inside = decays.clone()
    inside[row_offsets[1:][lengths > 0] - 1] = 0.0
    if bool((values.sum() + inside.sum()).isfinite()):
        return _scan(values, inside)
    is_finite = values.isfinite() & inside.isfinite()
    sums = _scan(torch.where(is_finite, values, 0.0), torch.where(is_finite, inside, 0.0))
    reach = torch.ones_like(inside)
    reach[row_offsets[1:][lengths > 0] - 1] = 0.0
    return torch.where(_scan((~is_finite).to(values.dtype), reach) > 0, torch.nan, sums)


def _scan(values: Tensor, decays: Tensor) -> Tensor:
    """The recurrence over one stream whose decays already end the rows."""
    count = len(values)
    if count == 0:
        return values.clone()
    sums, reach = _folded(values), _folded(decays)
    for place in range(_WIDTH - 2, -1, -1):
        sums[place].addcmul_(reach[place], sums[place + 1])
        reach[place].mul_(reach[place + 1])
    if count > _WIDTH:
        behind = _scan(sums[0], reach[0])[1:]
        sums[:, :-1].addcmul_(reach[:, :-1], behind)
    return sums.t().reshape(-1)[:count]


def _folded(stream: Tensor) -> Tensor:
    """A copy in which place i of every block of `_WIDTH` is row i; zeros fill the last block."""
    missing = -len(stream) % _WIDTH
    whole = torch.nn.functional.pad(stream, (0, missing)) if missing else stream
    return whole.view(-1, _WIDTH).t().clone(memory_format=torch.contiguous_format)
