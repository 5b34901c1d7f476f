"""Means over tasks with their intervals. Tasks that all came out alike have no variance, which is no certainty.

Wilson's interval over the tasks then says how many of them might have come out otherwise.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rollwright.record.gates import Measured
from rollwright.statistics import Interval, clustered_interval, wilson_interval

__all__ = ["LEVEL", "difference", "difference_interval", "share", "share_interval"]

LEVEL = 0.95
_ALIKE = 1e-9
"""Scores of tasks that lie no further apart are the same but for rounding."""


def share_interval(means: NDArray[np.float64]) -> Interval | None:
    """The interval of a share.

    Args:
        means: (tasks,) each in 0 to 1.

    Returns:
        Within 0 and 1; None for fewer than two tasks.
    """
    if len(means) < 2:
        return None
    value = float(means.mean())
    if value in (0.0, 1.0):
        return wilson_interval(round(value * len(means)), len(means))
    return clustered_interval(means)


def difference_interval(deltas: NDArray[np.float64]) -> Interval | None:
    """The interval of a mean paired difference.

    Args:
        deltas: (tasks,) each in -1 to 1.

    Returns:
        None for fewer than two tasks.
    """
    if len(deltas) < 2:
        return None
    if float(np.ptp(deltas)) > _ALIKE:
        return clustered_interval(deltas)
    others = wilson_interval(0, len(deltas))  # the share of tasks that may differ otherwise, by -1 to 1
    center = (1.0 - others.high) * float(deltas.mean())
    return Interval(low=center - others.high, high=center + others.high, level=others.level, method=others.method)


def share(by_task: Mapping[str, float], source: str) -> Measured:
    """A share with its interval over tasks.

    Args:
        by_task: task to its mean; empty gives no number.
        source: the sentence that gives the number.
    """
    means = np.array([by_task[task] for task in sorted(by_task)], dtype=np.float64)
    found = share_interval(means)
    bounds = None if found is None else (max(0.0, found.low), min(1.0, found.high))
    return _measured(means, bounds, source)


def difference(after: Mapping[str, float], before: Mapping[str, float], source: str) -> Measured:
    """A paired difference with its interval over the tasks that both have.

    Args:
        after: task to its mean.
        before: likewise.
        source: the sentence that gives the number.
    """
    deltas = np.array([after[task] - before[task] for task in sorted(after.keys() & before.keys())], dtype=np.float64)
    found = difference_interval(deltas)
    return _measured(deltas, None if found is None else (found.low, found.high), source)


def _measured(values: NDArray[np.float64], bounds: tuple[float, float] | None, source: str) -> Measured:
    if bounds is None:
        return Measured(value=None, num_items=len(values), source=f"{source}: {len(values)} tasks give no interval")
    low, high = bounds
    value = float(values.mean())
    return Measured(value=value, low=low, high=high, level=LEVEL, num_items=len(values), source=source)
