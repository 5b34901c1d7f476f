"""What a report and a page show: curves, bars and tables as small records, each with where its numbers come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

__all__ = [
    "NOT_MEASURED_BY_A_PROTOCOL",
    "UNKNOWN",
    "Axis",
    "Cell",
    "Figure",
    "Label",
    "Mark",
    "Point",
    "Provenance",
    "Series",
    "Table",
]

Label = Literal["D", "C", "I", "U"]
"""Of a cited fact: disclosed, in a released artifact, inferred, unknown."""
Cell = str | int | float | None
"""None: undefined, never 0."""

UNKNOWN = "unknown"
NOT_MEASURED_BY_A_PROTOCOL = "training batches, no held-out protocol"


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Where a number comes from; what is not known says `unknown`."""

    made_by: str
    """The SQL, or the function, that gives it."""
    protocol: str = UNKNOWN
    protocol_sha256: str = UNKNOWN
    tasks: str = UNKNOWN
    samples: str = UNKNOWN
    """A task."""
    sampling: str = UNKNOWN
    """Temperature, top-p and what else shapes the draws."""
    budgets: str = UNKNOWN
    interval: str = UNKNOWN
    """Method and level, or `none`."""
    steps: str = UNKNOWN
    label: Label | None = None
    """Of a cited fact; None: the number was measured."""
    gate: str = "no gate"
    """That carries a measured number, with its outcome."""

    def lines(self) -> tuple[tuple[str, str], ...]:
        """Name and value of each part, in the order in which they are printed."""
        return (
            ("protocol", self.protocol),
            ("protocol digest", self.protocol_sha256),
            ("tasks", self.tasks),
            ("samples", self.samples),
            ("sampling", self.sampling),
            ("budgets", self.budgets),
            ("interval", self.interval),
            ("steps", self.steps),
            ("standing", f"label {self.label}" if self.label else f"measured, {self.gate}"),
            ("made by", self.made_by),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What lies along a side of a figure."""

    name: str
    unit: str
    """Empty for a pure number."""

    @property
    def title(self) -> str:
        """Name with its unit."""
        return f"{self.name} ({self.unit})" if self.unit else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One value at one place."""

    step: int
    """Counted over all stages; the last one where several were put together."""
    x: float
    """Along the figure's axis; in a figure of categories, the place of one."""
    value: float | None
    """None: undefined."""
    low: float | None = None
    high: float | None = None
    """Both ends of its interval, or none."""
    num_items: int = 0
    """Episodes, tokens or tasks that it is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Points of one name, in order of `x`."""

    name: str
    unit: str
    labels: Mapping[str, str] = field(default_factory=lambda: {})
    points: tuple[Point, ...]
    interval: str = ""
    """What `low` and `high` are: method and level of an interval, or the spread of what was put together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A place on the x axis where something began, such as a stage."""

    x: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One plot, before anything is drawn."""

    slug: str
    """Names its file and its anchor: a-z, 0-9 and hyphens."""
    title: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    """Empty: `absent` says why."""
    provenance: Provenance
    categories: tuple[str, ...] = ()
    """Where bars stand, one name a place; empty: lines over a numeric axis."""
    marks: tuple[Mark, ...] = ()
    note: str = ""
    """How it is to be read."""
    thinned: str = ""
    """What was put together so that it can be drawn; empty: each point is as stored."""
    absent: str = ""
    """Why there is nothing to draw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under names of columns."""

    slug: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    """Empty: `absent` says why."""
    provenance: Provenance
    note: str = ""
    absent: str = ""
