"""What the catalogue says of a metric."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["MetricEntry"]


@dataclass(frozen=True, slots=True)
class MetricEntry:
    """One metric; the first three fields are given in order."""

    name: str
    """As runs write it."""
    formula: str
    unit: str
    by: str = ""
    """`rollwright.room.module:name` of what makes it; empty where nothing does yet."""
    later: str = ""
    """The room that makes it once it has what the metric is about; empty where it is made."""
    labels: tuple[str, ...] = ()
    """Labels that its rows may carry beside `model` and those of strata."""
    note: str = ""
    """An alarm that a source states, or how to read it; `gate`: declare the threshold before the run."""
    is_stratified: bool = False
    """Also by source, length, sign of the advantage, kind of action and lag."""
    known_as: tuple[str, ...] = ()
    """Names under which others write it."""
    table: Literal["metrics", "evaluations"] = "metrics"
