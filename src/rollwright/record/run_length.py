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
    first = np.searchsorted(changes, bounds[:, 0], side="right")
    last = np.searchsorted(changes, bounds[:, 1], side="left")
    counts = np.maximum(last - first, 0) + 1
    # The runs of all parts, one part behind the other: a part's first begins where it does, the others at its changes.
    ends = np.cumsum(counts)
    begins = ends - counts
    inner = np.arange(int(counts.sum())) - np.repeat(begins - first, counts)
    starts = np.append(0, changes)[inner]
    starts[begins] = bounds[:, 0]
    stops = np.append(starts[1:], 0)
    stops[ends - 1] = bounds[:, 1]
    # One more, where an empty part at the end begins.
    whole = _frozen(np.append(given, given.dtype.type(0)))
    lengths, kept = _frozen((stops - starts).astype(np.int32)), _frozen(whole[starts])
    are_shorter = 2 * counts <= bounds[:, 1] - bounds[:, 0]
    return tuple(
        Runs(n=lengths[begin:end], v=kept[begin:end]) if is_shorter else Runs(n=_NO_RUNS, v=whole[start:stop])
        for (start, stop), begin, end, is_shorter in zip(
            spans, begins.tolist(), ends.tolist(), are_shorter.tolist(), strict=True
        )
    )


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A fresh array, made read-only."""
    array.flags.writeable = False
    return array


_NO_RUNS = _frozen(np.empty(0, dtype=np.int32))
