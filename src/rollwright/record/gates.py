"""A condition on evidence and what came of it: passed, failed, or not enough evidence, with the numbers."""

import math
from dataclasses import dataclass
from typing import Literal

from rollwright.record.errors import RecordError

__all__ = ["Bound", "GateVerdict", "Measured", "Outcome"]

Outcome = Literal["passed", "failed", "not enough evidence"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A limit, and on which side of it a number has to lie; the limit itself is within."""

    side: Literal["at_least", "at_most"]
    limit: float

    def __post_init__(self) -> None:
        """Refuse a limit that nothing can be compared with."""
        if not math.isfinite(self.limit):
            raise RecordError(f"a limit of {self.limit} bounds nothing; give a finite number.")

    def allows(self, value: float) -> bool:
        """True where `value` lies within the limit."""
        return value >= self.limit if self.side == "at_least" else value <= self.limit

    def __str__(self) -> str:
        """As a person reads it."""
        return f"{self.side.replace('_', ' ')} {self.limit:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number with what is known of its certainty."""

    value: float | None
    """None where it is undefined; `source` then says why."""
    low: float | None = None
    """Ends of the interval; None where it has none: what was counted over everything is certain."""
    high: float | None = None
    level: float | None = None
    """Of the interval."""
    num_items: int
    """Tasks, steps or episodes that the number is made of."""
    source: str
    """The sentence or query that gives the number."""

    def __post_init__(self) -> None:
        """Refuse half an interval, one that is upside down, and what is not a number."""
        if any(number is not None and math.isnan(number) for number in (self.value, self.low, self.high)):
            raise RecordError(f"{self} holds what is not a number; say None where a number is undefined.")
        if (self.low is None) != (self.high is None):
            raise RecordError(f"{self} has one end of an interval; give both ends, or neither.")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise RecordError(f"{self} has an interval whose low end is above its high end; exchange them.")
        if self.value is None and self.low is not None:
            raise RecordError(f"{self} has an interval around no number; leave it out.")

    def __str__(self) -> str:
        """As a person reads it."""
        if self.value is None:
            return "no number"
        ends = "" if self.low is None or self.high is None else f" [{self.low:.3g}, {self.high:.3g}]"
        return f"{self.value:.4g}{ends}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateVerdict:
    """Whether one limit holds."""

    gate: str
    outcome: Outcome
    bound: Bound
    measured: Measured
    because: str
    """The number beside the limit, or why there is none."""
