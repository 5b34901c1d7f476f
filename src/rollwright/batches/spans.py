"""Sums over many spans of one stream at once, each to the last bit what the span alone gives."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["counts_in", "largest_of_spans", "sums_of_spans"]


def counts_in(mask: NDArray[np.bool_], spans: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n,) how many are True in each of the (n, 2) spans (start, stop) of a (T,) mask."""
    before = np.append(0, np.cumsum(mask))
    return before[spans[:, 1]] - before[spans[:, 0]]


def sums_of_spans(values: NDArray[np.float64], spans: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum of each span; the order of additions is that of `values[start:stop].sum()`.

    Spans of one length are rows of a rectangle, whose rows NumPy adds as it adds an array. (`reduceat` starts with the
    first value instead, which gives other bits.)

    Args:
        values: (T,)
        spans: (n, 2) start and stop.

    Returns:
        (n,) 0 for an empty span.
    """
    lengths = spans[:, 1] - spans[:, 0]
    order = np.argsort(lengths, kind="stable")
    found = np.zeros(len(spans), np.float64)
    for members in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        if len(members) and (length := int(lengths[members[0]])):
            found[members] = values[spans[members, :1] + np.arange(length)].sum(axis=1)
    return found


def largest_of_spans(values: NDArray[np.float64], spans: NDArray[np.int64]) -> NDArray[np.float64]:
    """(n,) the largest value of each of the (n, 2) spans, NaN where one of its values is or where it is empty."""
    found = np.full(len(spans), np.nan)
    is_full = spans[:, 1] > spans[:, 0]
    if is_full.any():
        # One more value, where a span may end; every second result is what lies between two spans.
        found[is_full] = np.maximum.reduceat(np.append(values, 0.0), spans[is_full].ravel())[::2]
    return found
