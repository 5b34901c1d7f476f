"""What is known of a metric by its name, without anything that makes it."""

from dataclasses import dataclass
from typing import Final, Literal

from rollwright.record.tables import is_measured_metric

__all__ = ["EPISODE_STRATA", "STRATA", "Direction", "MetricEntry"]

Direction = Literal["higher", "lower", "none"]

STRATA: Final = ("source", "length", "advantage", "action", "lag", "outcome", "difficulty")
"""Labels by which a stratified metric of tokens is written again, each for its part of the tokens: source of the task;
trained tokens of the row; sign of the advantage; reasoning, answer, tool_call, stop or other; steps since it was
sampled; right, wrong or unscored episode; success rate of the prompt in the batch."""
EPISODE_STRATA: Final = ("source", "length", "advantage", "lag", "outcome", "difficulty")
"""The same of episodes: action tokens of the episode, sign of its reward against its group's mean, its oldest token."""


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
    direction: Direction = "none"
    """Which way is better, all else equal; `none` where neither is, such as of an entropy."""
    alarm: str = ""
    """The threshold that a source states; `gate` where a run declares its own before it starts; empty where neither."""
    labels: tuple[str, ...] = ()
    """Labels that its rows may carry beside `model` and those of strata."""
    strata: tuple[str, ...] = ()
    """Also by these, as labels of further rows."""
    note: str = ""
    """How to read it."""
    known_as: tuple[str, ...] = ()
    """Names under which others write it."""
    table: Literal["metrics", "evaluations"] = "metrics"

    @property
    def is_measured(self) -> bool:
        """True for time, rate and memory, which two equal runs do not share: no part of a run's content hash."""
        return is_measured_metric(self.name, self.unit)
