"""One number of an evaluation, and the mean over tasks with the interval that it may claim."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.statistics import Interval, clustered_interval, task_means, wilson_interval

__all__ = ["Measured", "mean_by_task", "plain", "undefined", "with_interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A value of one metric under its labels."""

    metric: str
    value: float | None
    """None: undefined, never 0."""
    low: float | None
    high: float | None
    method: str
    labels: Mapping[str, str]
    num_tasks: int
    """Tasks on which the value stands."""


def mean_by_task(
    metric: str,
    values: Sequence[float],
    tasks: Sequence[str],
    *,
    level: float,
    labels: Mapping[str, str],
    is_share: bool,
) -> Measured:
    """The mean over tasks of each task's mean, with an interval clustered by task.

    A share stays within 0 and 1. Where all of it is 0 or 1 the clustered interval has no width, which is no evidence
    of certainty: Wilson's interval over the tasks stands instead.

    Args:
        metric: its name.
        values: one an attempt, or one a task.
        tasks: the task of each value.
        level: of the interval.
        labels: of the row.
        is_share: every value lies between 0 and 1.
    """
    by_task: dict[str, list[float]] = {}
    for task, value in zip(tasks, values, strict=True):
        by_task.setdefault(task, []).append(value)
    if not by_task:
        return undefined(metric, labels)
    means = task_means(list(by_task.values()))
    value = float(means.mean())
    if is_share and value in (0.0, 1.0):
        bounds = wilson_interval(round(value * len(means)), len(means), level=level)
    else:
        bounds = clustered_interval(means, level=level)
    if is_share and bounds is not None:
        low, high = max(0.0, bounds.low), min(1.0, bounds.high)
        bounds = Interval(low=low, high=high, level=level, method=bounds.method)
    return with_interval(metric, value, bounds, labels=labels, num_tasks=len(means))


def with_interval(
    metric: str, value: float | None, bounds: Interval | None, *, labels: Mapping[str, str], num_tasks: int
) -> Measured:
    """A value with its bounds; where these are undefined, the method says so."""
    return Measured(
        metric=metric,
        value=value,
        low=None if bounds is None else bounds.low,
        high=None if bounds is None else bounds.high,
        method="undefined" if bounds is None else bounds.method,
        labels=labels,
        num_tasks=num_tasks,
    )


def undefined(metric: str, labels: Mapping[str, str]) -> Measured:
    """What no task can say."""
    return with_interval(metric, None, None, labels=labels, num_tasks=0)


def plain(metric: str, value: float | None, labels: Mapping[str, str], num_tasks: int) -> Measured:
    """A count, a quantile or a share of episodes: there is no interval to claim."""
    return Measured(metric=metric, value=value, low=None, high=None, method="none", labels=labels, num_tasks=num_tasks)
