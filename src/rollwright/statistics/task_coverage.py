"""How many tasks are covered: cover@k and cover@τ (M129).

Failures of a finite sample cannot tell a task that is never solved from one that is seldom solved, and to recognise
the success among k attempts is a selector's work, with errors of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.statistics.coverage import TaskMean, mean_over_tasks, pass_at_k
from rollwright.statistics.errors import StatisticsError

__all__ = ["CoveredTasks", "cover_at_k", "cover_at_rate", "covered_by_first"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoveredTasks:
    """Tasks that k attempts are expected to solve at least once."""

    expected: float
    """Σ pass@k, tasks."""
    fraction: float | None
    """Of the tasks with an estimate; None without one."""
    num_tasks: int
    num_missing: int
    """Tasks with fewer than k scored attempts."""


def cover_at_k(counts: Sequence[tuple[int, int]], k: int) -> CoveredTasks:
    """Expected number of tasks with a success in k attempts: the sum of their unbiased pass@k.

    Args:
        counts: (attempts n, successes c) of each task.
        k: attempts that a user would make.

    Returns:
        The number and its share of the tasks on which it stands.
    """
    mean = mean_over_tasks([pass_at_k(attempts, successes, k) for attempts, successes in counts])
    return CoveredTasks(
        expected=(mean.value or 0.0) * mean.num_tasks,
        fraction=mean.value,
        num_tasks=mean.num_tasks,
        num_missing=mean.num_missing,
    )


def covered_by_first(attempts: Sequence[Sequence[float]], k: int) -> int:
    """Tasks with a success among their first k attempts: one draw of what `cover_at_k` expects, for comparison only.

    Args:
        attempts: successes of each task in order, 0 or 1.
        k: attempts that are looked at; a task with fewer is refused.

    Returns:
        A count of tasks.
    """
    if short := [place for place, scores in enumerate(attempts) if len(scores) < k]:
        raise StatisticsError(f"tasks {short} have fewer than {k} attempts; leave them out, or look at fewer attempts.")
    return sum(any(scores[:k]) for scores in attempts)


def cover_at_rate(rates: Sequence[float | None], threshold: float) -> TaskMean:
    """Share of tasks whose success rate is at least a threshold, cover@τ.

    A rate p̂ = c/n is noisy, so a task near the threshold may fall on either side.

    Args:
        rates: success rate of each task; None where nothing was scored.
        threshold: τ in (0, 1].

    Returns:
        The share, with the number of tasks without a rate.
    """
    if not 0.0 < threshold <= 1.0:
        raise StatisticsError(f"the threshold is {threshold}; a success rate to reach lies in (0, 1].")
    return mean_over_tasks([None if rate is None else float(rate >= threshold) for rate in rates])
