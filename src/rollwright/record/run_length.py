"""Run-length numbers: how receipts store one value a token when most neighbours are equal."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rollwright.record.arrays import Lists, frozen_array
from rollwright.record.rows import Runs

__all__ = ["RunLists", "run_length", "run_lengths"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunLists:
    """`Runs` of many rows, by its fields."""

    n: Lists
    v: Lists

    def __len__(self) -> int:
        """How many rows."""
        return len(self.v)


def run_length(values: NDArray[Any]) -> Runs:
    """The runs of `values`, or the values themselves where runs would not be shorter.

    Args:
        values: (T,) numbers of 1, 2, 4 or 8 bytes, whose dtype is kept; equal means equal bits, so -0.0 and
            0.0 differ and a NaN equals itself.

    Returns:
        `Runs` whose `expand()` is `values`, bit for bit; no values give empty runs.
    """
    found = run_lengths(values, np.array([(0, len(values))], np.int64))
    return Runs(n=frozen_array(found.n.values, np.int32), v=frozen_array(found.v.values, found.v.values.dtype))


def run_lengths(values: NDArray[Any], spans: NDArray[np.int64]) -> RunLists:
    """`run_length` of many parts of one stream at once.

    Args:
        values: (T,) numbers of 1, 2, 4 or 8 bytes, whose dtype is kept.
        spans: (n, 2) start and stop of each part, in any order.

    Returns:
        The `Runs` of `values[start:stop]` for each span.
    """
    given = np.ascontiguousarray(values)
    bits = given.view(f"u{given.itemsize}")
    changes = np.flatnonzero(bits[1:] != bits[:-1]) + 1
    first = np.searchsorted(changes, spans[:, 0], side="right")
    last = np.searchsorted(changes, spans[:, 1], side="left")
    counts = np.maximum(last - first, 0) + 1
    # The runs of all parts, one part behind the other: a part's first begins where it does, the others at its changes.
    ends = np.cumsum(counts)
    begins = ends - counts
    inner = np.arange(int(counts.sum())) - np.repeat(begins - first, counts)
    starts = np.append(0, changes)[inner]
    starts[begins] = spans[:, 0]
    stops = np.append(starts[1:], 0)
    stops[ends - 1] = spans[:, 1]
    lengths = spans[:, 1] - spans[:, 0]
    are_shorter = 2 * counts <= lengths
    is_run = np.repeat(are_shorter, counts)
    num_values = np.where(are_shorter, counts, lengths)
    # Where a value stands: at the start of its run, or at its own place in a part that is stored as it is.
    after = np.cumsum(num_values)
    places = np.arange(int(num_values.sum())) + np.repeat(spans[:, 0] - (after - num_values), num_values)
    places[np.repeat(are_shorter, num_values)] = starts[is_run]
    return RunLists(
        n=Lists(lengths=np.where(are_shorter, counts, 0), values=(stops - starts)[is_run].astype(np.int32)),
        v=Lists(lengths=num_values, values=given[places]),
    )
