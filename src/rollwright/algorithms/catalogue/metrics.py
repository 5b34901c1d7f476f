"""Every metric by name: formula, unit, how to read it, and what makes it or will."""

from typing import Final

from rollwright.algorithms.catalogue.metric_entry import MetricEntry
from rollwright.algorithms.catalogue.metrics_of_later import OF_LATER
from rollwright.algorithms.catalogue.metrics_of_steps import OF_EVALUATIONS, OF_STEPS
from rollwright.algorithms.catalogue.metrics_of_updates import OF_UPDATES

__all__ = ["METRICS", "MetricEntry", "metric_named"]

METRICS: Final[tuple[MetricEntry, ...]] = (*OF_UPDATES, *OF_STEPS, *OF_EVALUATIONS, *OF_LATER)


def metric_named(name: str) -> MetricEntry | None:
    """The metric that runs write under this name, or that others know by it; None where there is none."""
    exact = next((one for one in METRICS if one.name == name), None)
    return exact or next((one for one in METRICS if name in one.known_as), None)
