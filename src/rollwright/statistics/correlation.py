"""Correlation of two measurements of the same things."""

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError

__all__ = ["pearson", "spearman"]


def pearson(left: NDArray[np.float64], right: NDArray[np.float64]) -> float | None:
    """Pearson's correlation, such as of a judge's score with the length of what it judged (M117).

    Args:
        left: (n,) finite.
        right: (n,) finite, of the same things.

    Returns:
        In [−1, 1]; None below two items or where one of the two does not vary.
    """
    _check_pairs(left, right)
    if len(left) < 2:
        return None
    first, second = left - left.mean(), right - right.mean()
    spread = float(np.sqrt(np.square(first).sum() * np.square(second).sum()))
    # A constant leaves the last bits of its mean: no spread, rather than a correlation of rounding errors.
    is_level = any(np.ptp(values) <= 1e-12 * max(1.0, float(np.abs(values).max())) for values in (left, right))
    return None if is_level else float(np.clip((first * second).sum() / spread, -1.0, 1.0))


def spearman(left: NDArray[np.float64], right: NDArray[np.float64]) -> float | None:
    """Pearson's correlation of the ranks, ties sharing their mean rank: for scales that are orders only."""
    _check_pairs(left, right)
    return pearson(_ranks(left), _ranks(right))


def _check_pairs(left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    if left.shape != right.shape or left.ndim != 1:
        raise StatisticsError(f"shapes {left.shape} and {right.shape}; give one number of each kind an item.")
    if not (np.isfinite(left).all() and np.isfinite(right).all()):
        raise StatisticsError("a correlation takes finite numbers; leave items out that lack one of the two.")


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts).astype(np.float64)
    return (last - (counts - 1) / 2.0)[place]
