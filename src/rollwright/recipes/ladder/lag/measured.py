"""Stored metrics over the updates of a run: their mean by tokens, their sum, their worst."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["MeasuredRow", "Spread", "largest", "mean", "spread", "total"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """One row of the table `metrics`."""

    step: int
    name: str
    labels: Mapping[str, str]
    """Without the model's."""
    value: float | None
    num_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A metric over the updates of a run; None where no update has it."""

    mean: float | None
    """Each update counts by its items."""
    worst: float | None


def mean(rows: Sequence[MeasuredRow], name: str, **labels: str) -> float | None:
    """The mean over all items of all updates; undefined values are left out."""
    pairs = [(row.value, row.num_items) for row in _named(rows, name, labels) if row.value is not None]
    items = sum(count for _, count in pairs)
    return sum(value * count for value, count in pairs) / items if items else None


def total(rows: Sequence[MeasuredRow], name: str, **labels: str) -> float:
    """The sum over all updates."""
    return sum(row.value or 0.0 for row in _named(rows, name, labels))


def largest(rows: Sequence[MeasuredRow], name: str, **labels: str) -> float | None:
    """The largest value of any update."""
    return max(_values(rows, name, labels), default=None)


def spread(rows: Sequence[MeasuredRow], name: str, worst: Callable[[Iterable[float]], float], **labels: str) -> Spread:
    """Mean and worst.

    Args:
        rows: of a run.
        name: of the metric.
        worst: picks the worst of several values: `min` or `max`.
        labels: that the rows have, and no others.
    """
    values = _values(rows, name, labels)
    return Spread(mean=mean(rows, name, **labels), worst=worst(values) if values else None)


def _values(rows: Sequence[MeasuredRow], name: str, labels: Mapping[str, str]) -> list[float]:
    return [row.value for row in _named(rows, name, labels) if row.value is not None]


def _named(rows: Sequence[MeasuredRow], name: str, labels: Mapping[str, str]) -> list[MeasuredRow]:
    return [row for row in rows if row.name == name and dict(row.labels) == dict(labels)]
