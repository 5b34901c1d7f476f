"""Intervals of a mean over tasks, where the attempts at one task are correlated (M131).

The task is the unit: each task has one mean, and tasks are resampled or their spread is taken. Attempts as the unit
give intervals that are too narrow.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval, normal_quantile
from rollwright.statistics.resampling import check_resamples, percentile_interval

__all__ = [
    "bootstrap_interval",
    "cluster_standard_error",
    "clustered_interval",
    "count_resamples",
    "exhaustive_bootstrap_interval",
    "task_means",
]

_LARGEST_EXHAUSTIVE = 8
"""Tasks; 8 give 16.8 million resamples."""


def task_means(attempts: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Mean score of each task.

    Args:
        attempts: scored attempts of each task, at least one each; a task without a score is missing, not 0.

    Returns:
        (tasks,) float64.
    """
    if empty := [place for place, scores in enumerate(attempts) if not len(scores)]:
        raise StatisticsError(f"tasks {empty} have no scored attempt; count them as missing and leave them out.")
    return np.array([float(np.mean(np.asarray(scores, dtype=np.float64))) for scores in attempts], dtype=np.float64)


def cluster_standard_error(means: NDArray[np.float64]) -> float | None:
    """Standard error of the mean over tasks: sd of the task means (n − 1) over √tasks; None below two tasks."""
    return float(means.std(ddof=1)) / math.sqrt(len(means)) if len(means) >= 2 else None


def clustered_interval(means: NDArray[np.float64], *, level: float = 0.95) -> Interval | None:
    """Normal interval of the mean over tasks, by the clustered standard error.

    Args:
        means: (tasks,) float64, scores.
        level: confidence.

    Returns:
        The interval, None below two tasks. Equal tasks give width 0: with 0/1 scores and one attempt a task,
        `wilson_interval` over tasks is the better choice.
    """
    error = cluster_standard_error(means)
    if error is None:
        return None
    center, half = float(means.mean()), normal_quantile(level) * error
    return Interval(low=center - half, high=center + half, level=level, method="clustered_normal")


def bootstrap_interval(
    means: NDArray[np.float64], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap over tasks, seeded.

    Args:
        means: (tasks,) float64, scores.
        seed: of the resampling; the same seed gives the same interval.
        resamples: at least 1,000.
        level: confidence.

    Returns:
        The interval, None below two tasks; quantile q is the order statistic ⌈q·resamples⌉.
    """
    check_resamples(resamples)
    if len(means) < 2:
        return None
    generator = np.random.default_rng(seed)
    drawn = np.array([means[generator.integers(0, len(means), len(means))].mean() for _ in range(resamples)])
    return percentile_interval(drawn, level=level, method="task_bootstrap")


def exhaustive_bootstrap_interval(means: NDArray[np.float64], *, level: float = 0.95) -> Interval | None:
    """The bootstrap over tasks with every possible resample: no chance in it, for a handful of tasks.

    Args:
        means: (tasks,) float64, at most 8.
        level: confidence.

    Returns:
        The interval, None below two tasks; quantile q is the order statistic ⌈q·tasks^tasks⌉.
    """
    count = len(means)
    if count > _LARGEST_EXHAUSTIVE:
        raise StatisticsError(f"{count} tasks have {count}^{count} resamples; use bootstrap_interval above 8 tasks.")
    if count < 2:
        return None
    totals = np.zeros(1, dtype=np.float64)
    for _ in range(count):
        totals = np.add.outer(totals, means).reshape(-1)
    return percentile_interval(totals / count, level=level, method="exhaustive_task_bootstrap")


def count_resamples(num_tasks: int) -> int:
    """How many resamples of so many tasks there are: tasks^tasks."""
    return num_tasks**num_tasks
