"""Run-length numbers: how receipts store one value a token when most neighbours are equal."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollwright.record.arrays import frozen_array
from rollwright.record.rows import Runs

__all__ = ["run_length"]


def run_length(values: NDArray[Any]) -> Runs:
    """The runs of `values`, or the values themselves where runs would not be shorter.

    Args:
        values: (T,) numbers of any dtype, which is kept; equal means equal bits, so -0.0 and 0.0 differ and a NaN
            equals itself.

    Returns:
        `Runs` whose `expand()` is `values`, bit for bit; no values give empty runs.
    """
    given = np.ascontiguousarray(values)
    if len(given) == 0:
        return Runs(n=frozen_array([], np.int32), v=frozen_array(given, given.dtype))
    bits = given.view(np.uint8).reshape(len(given), -1)
    starts = np.flatnonzero(np.concatenate(([True], (bits[1:] != bits[:-1]).any(axis=1))))
    if 2 * len(starts) > len(given):
        return Runs(n=frozen_array([], np.int32), v=frozen_array(given, given.dtype))
    lengths = np.diff(starts, append=len(given))
    return Runs(n=frozen_array(lengths, np.int32), v=frozen_array(given[starts], given.dtype))
