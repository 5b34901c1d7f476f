"""Two policies on the same tasks (M133)."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.beta import student_p_value, student_quantile
from rollwright.statistics.clustered import bootstrap_interval, cluster_standard_error
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval

__all__ = ["PairedDifference", "compare_paired", "mcnemar_exact", "paired_bootstrap_interval", "paired_t_interval"]


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

    @property
    def p_value(self) -> float | None:
        """Two-sided, of Student's t with tasks − 1 degrees of freedom; None where t is undefined."""
        return None if self.t is None else student_p_value(self.t, self.num_tasks - 1)


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


def paired_t_interval(deltas: NDArray[np.float64], *, level: float = 0.95) -> Interval | None:
    """Student's interval of the mean difference.

    Args:
        deltas: (tasks,) float64, differences of tasks, or of pairs of runs.
        level: confidence.

    Returns:
        The interval with tasks − 1 degrees of freedom; None below two tasks, and where all differences are equal: a
        width of 0 is no evidence of certainty.
    """
    error = cluster_standard_error(deltas)
    if not error:
        return None
    center, half = float(deltas.mean()), student_quantile(level, len(deltas) - 1) * error
    return Interval(low=center - half, high=center + half, level=level, method="paired_t")


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
