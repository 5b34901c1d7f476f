"""Several training runs or seeds, each measured on tasks: both are resampled (M131, M133).

Runs that were measured on the same tasks are crossed with them: a task is hard in every run at once, and is drawn for
all of them together. Runs with tasks of their own are nested. A claim about training needs three runs or more; with
two, an interval says little.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval
from rollwright.statistics.resampling import check_resamples, percentile_interval

__all__ = ["crossed_bootstrap_interval", "nested_bootstrap_interval"]


def nested_bootstrap_interval(
    runs: Sequence[NDArray[np.float64]], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap of the mean over runs, where each run has tasks of its own.

    Args:
        runs: for each run (tasks,) task means; runs may differ in length, none is empty.
        seed: of the resampling; the same seed gives the same interval.
        resamples: at least 1,000; each draws runs, then tasks within each drawn run.
        level: confidence.

    Returns:
        The interval of the mean of the runs' means; None below two runs.
    """
    check_resamples(resamples)
    if empty := [place for place, means in enumerate(runs) if not len(means)]:
        raise StatisticsError(f"runs {empty} have no task; leave them out.")
    if len(runs) < 2:
        return None
    generator = np.random.default_rng(seed)
    chosen = generator.integers(0, len(runs), (resamples, len(runs)))
    totals = np.zeros(resamples, np.float64)
    for place in range(len(runs)):
        for number, means in enumerate(runs):
            here = np.flatnonzero(chosen[:, place] == number)
            drawn = generator.multinomial(len(means), np.full(len(means), 1.0 / len(means)), size=len(here))
            totals[here] += drawn @ means / len(means)
    return percentile_interval(totals / len(runs), level=level, method="nested_bootstrap")


def crossed_bootstrap_interval(
    means: NDArray[np.float64], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> Interval | None:
    """Percentile bootstrap of the mean, where every run was measured on the same tasks.

    Args:
        means: (runs, tasks) task means, or differences of two policies on the same task.
        seed: of the resampling.
        resamples: at least 1,000; each draws runs, and tasks for all of them at once.
        level: confidence.

    Returns:
        The interval; None below two runs or below two tasks.
    """
    check_resamples(resamples)
    if means.ndim != 2:
        raise StatisticsError(f"the means have shape {means.shape}; give (runs, tasks).")
    num_runs, num_tasks = means.shape
    if num_runs < 2 or num_tasks < 2:
        return None
    generator = np.random.default_rng(seed)
    runs = generator.multinomial(num_runs, np.full(num_runs, 1.0 / num_runs), size=resamples)
    tasks = generator.multinomial(num_tasks, np.full(num_tasks, 1.0 / num_tasks), size=resamples)
    drawn = ((runs @ means) * tasks).sum(axis=1) / (num_runs * num_tasks)
    return percentile_interval(drawn, level=level, method="crossed_bootstrap")
