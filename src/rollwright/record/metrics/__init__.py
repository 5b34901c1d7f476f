"""Every metric by name: formula, unit, how to read it, and what makes it or will."""

from typing import Final

from rollwright.record.metrics.entry import EPISODE_STRATA, STRATA, Direction, MetricEntry
from rollwright.record.metrics.of_audits import OF_AUDITS
from rollwright.record.metrics.of_episodes import OF_EPISODES
from rollwright.record.metrics.of_evaluations import OF_EVALUATIONS
from rollwright.record.metrics.of_later import OF_LATER
from rollwright.record.metrics.of_steps import OF_STEPS
from rollwright.record.metrics.of_updates import OF_UPDATES

__all__ = ["EPISODE_STRATA", "METRICS", "STRATA", "Direction", "MetricEntry", "metric_named"]

METRICS: Final[tuple[MetricEntry, ...]] = (*OF_UPDATES, *OF_STEPS, *OF_EPISODES, *OF_EVALUATIONS, *OF_AUDITS, *OF_LATER)

_BY_NAME: Final = {name: one for one in reversed(METRICS) for name in (*one.known_as, one.name)}


def metric_named(name: str) -> MetricEntry | None:
    """The metric that runs write under this name, or that others know by it; None where there is none."""
    return _BY_NAME.get(name)
