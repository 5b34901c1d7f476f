"""Percentiles of what resampling gave: order statistics, never interpolated."""

import math

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval, normal_quantile

__all__ = ["check_resamples", "percentile_interval"]


def check_resamples(resamples: int) -> None:
    """Refuse fewer resamples than a percentile needs."""
    if resamples < 1000:
        raise StatisticsError(f"{resamples} resamples are too few for a percentile; take at least 1000.")


def percentile_interval(drawn: NDArray[np.float64], *, level: float, method: str) -> Interval:
    """The middle of what was drawn.

    Args:
        drawn: (n,) one statistic a resample, at least one.
        level: confidence.
        method: the name that the interval carries.

    Returns:
        The interval; quantile q is the order statistic ⌈q·n⌉.
    """
    normal_quantile(level)
    ordered = np.sort(drawn)
    low, high = ((1.0 - level) / 2.0, (1.0 + level) / 2.0)
    # Rounding first: (1 + 0.9) / 2 · 1000 is 950.0000000000001 and must not become 951.
    places = [max(0, math.ceil(round(q * len(ordered), 9)) - 1) for q in (low, high)]
    return Interval(low=float(ordered[places[0]]), high=float(ordered[places[1]]), level=level, method=method)
