"""Run-length numbers: how receipts store one value a token when most neighbours are equal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollwright.record.rows import Runs

__all__ = ["run_length", "run_lengths"]


def run_length(values: NDArray[Any]) -> Runs:
    """The runs of `values`, or the values themselves where runs would not be shorter.

    Args:
        values: (T,) numbers of 1, 2, 4 or 8 bytes, whose dtype is kept; equal means equal bits, so -0.0 and
            0.0 differ and a NaN equals itself.

    Returns:
        `Runs` whose `expand()` is `values`, bit for bit; no values give empty runs.
    """
    return run_lengths(values, [(0, len(values))])[0]


def run_lengths(values: NDArray[Any], spans: Sequence[tuple[int, int]]) -> tuple[Runs, ...]:
    """`run_length` of many parts of one stream at once.

    Args:
        values: (T,) numbers of 1, 2, 4 or 8 bytes, whose dtype is kept.
        spans: (start, stop) of each part, in any order.

    Returns:
        `Runs` of `values[start:stop]` for each span.
    """
    given = np.ascontiguousarray(values)
    bits = given.view(f"u{given.itemsize}")
    changes = np.flatnonzero(bits[1:] != bits[:-1]) + 1
    bounds = np.asarray(spans, dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(changes, bounds[:, 0], side="right").tolist()
    last = np.searchsorted(changes, bounds[:, 1], side="left").tolist()
    return tuple(
        _runs(given, start, stop, changes[low:high])
        for (start, stop), low, high in zip(spans, first, last, strict=True)
    )


def _runs(values: NDArray[Any], start: int, stop: int, inner: NDArray[np.int64]) -> Runs:
    """Runs of `values[start:stop]`, whose value changes at the places `inner`."""
    if 2 * (len(inner) + 1) > stop - start:
        return Runs(n=_frozen(np.empty(0, dtype=np.int32)), v=_frozen(values[start:stop].copy()))
    edges = np.empty(len(inner) + 2, dtype=np.int64)
    edges[0], edges[1:-1], edges[-1] = start, inner, stop
    return Runs(n=_frozen((edges[1:] - edges[:-1]).astype(np.int32)), v=_frozen(values[edges[:-1]]))


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A fresh array, made read-only."""
    array.flags.writeable = False
    return array
