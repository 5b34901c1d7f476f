"""Two policies on the same tasks (M133)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.clustered import bootstrap_interval, cluster_standard_error
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval

__all__ = ["PairedDifference", "compare_paired", "mcnemar_exact", "paired_bootstrap_interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedDifference:
    """Mean of the differences of tasks that both policies attempted under one protocol."""

    mean: float | None
    """None without tasks."""
    standard_error: float | None
    """None below two tasks."""
    t: float | None
    """mean / standard_error; None where that is undefined or 0."""
    num_tasks: int


def compare_paired(deltas: NDArray[np.float64]) -> PairedDifference:
    """Mean, standard error and t of per-task differences.

    Args:
        deltas: (tasks,) float64, score of one policy minus that of the other on the same task.

    Returns:
        The comparison; pairing removes what is common to a task.
    """
    mean = float(deltas.mean()) if len(deltas) else None
    error = cluster_standard_error(deltas)
    return PairedDifference(
        mean=mean,
        standard_error=error,
        t=mean / error if mean is not None and error else None,
        num_tasks=len(deltas),
    )


def paired_bootstrap_interval(
    deltas: NDArray[np.float64], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap over the tasks of a paired comparison; None below two tasks."""
    return bootstrap_interval(deltas, seed=seed, resamples=resamples, level=level)


def mcnemar_exact(only_first: int, only_second: int) -> float:
    """Two-sided exact McNemar test, for one attempt a task: is it a fair coin which policy alone succeeds.

    Args:
        only_first: tasks that the first policy alone solved.
        only_second: tasks that the second alone solved.

    Returns:
        p in (0, 1]; 1 where no task tells them apart.
    """
    if only_first < 0 or only_second < 0:
        raise StatisticsError(f"{only_first} and {only_second} discordant tasks; counts are at least 0.")
    total, fewer = only_first + only_second, min(only_first, only_second)
    tail = sum(math.comb(total, count) for count in range(fewer + 1))
    return min(1.0, 2 * tail / 2**total)
