"""A reward for variety beside variety that is counted without it: where the two part, the reward is gamed."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

from rollwright.statistics.diversity import count_distinct
from rollwright.statistics.errors import StatisticsError

__all__ = ["DiversityAudit", "audit_diversity"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DiversityAudit:
    """What the rewarded metric and an independent count say, each from 0 to 1."""

    rewarded: float
    independent: float
    gap: float
    is_alarm: bool


def audit_diversity(
    groups: Sequence[Sequence[str]],
    *,
    rewarded: Callable[[Sequence[str]], float],
    meaning: Callable[[str], Hashable],
    most: float = 0.3,
) -> DiversityAudit:
    """Compare a metric that is paid with the share of attempts of a task that mean something of their own.

    Args:
        groups: attempts at each task, two or more.
        rewarded: the metric that is paid, of one group, from 0 (all alike) to 1.
        meaning: what an attempt comes to, such as its answer; None counts for nothing.
        most: a gap above this raises the alarm.
    """
    if not groups or any(len(group) < 2 for group in groups):
        raise StatisticsError("a diversity audit needs groups of at least two attempts.")
    paid = fmean(rewarded(group) for group in groups)
    counted = fmean(max(0, count_distinct([meaning(one) for one in group]) - 1) / (len(group) - 1) for group in groups)
    return DiversityAudit(rewarded=paid, independent=counted, gap=paid - counted, is_alarm=paid - counted > most)
