"""How large each part of the reward is, by the source of its tasks: a part on another scale is seen."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

__all__ = ["ComponentScale", "ComponentValue", "component_scales", "foreign_scales"]

_FOREIGN = 10.0
"""So many times larger or smaller than the same part elsewhere, or than the outcome, is another scale."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentValue:
    """One raw value of one part in one reward."""

    source: str
    """Of the task."""
    component: str
    value: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentScale:
    """One part over all attempts at tasks of one source."""

    source: str
    component: str
    num: int
    mean: float
    std: float
    low: float
    high: float
    weight: float
    """Of the part in the reward; raw values stand before it."""

    @property
    def size(self) -> float:
        """The largest raw value, either sign."""
        return max(abs(self.low), abs(self.high))


def component_scales(values: Iterable[ComponentValue]) -> tuple[ComponentScale, ...]:
    """Mean, deviation and range of each part in each source, by component, then source."""
    found: defaultdict[tuple[str, str], list[ComponentValue]] = defaultdict(list)
    for value in values:
        found[value.component, value.source].append(value)
    return tuple(_scale(found[key]) for key in sorted(found))


def foreign_scales(scales: Sequence[ComponentScale], *, factor: float = _FOREIGN) -> tuple[ComponentScale, ...]:
    """Parts whose size in one source differs by more than the factor from their middle size over all sources.

    Args:
        scales: of one run.
        factor: above 1.

    Returns:
        In the order given. Parts that are 0 everywhere in a source are not compared: they have no scale.
    """
    sizes: defaultdict[str, list[float]] = defaultdict(list)
    for scale in scales:
        if scale.size > 0:
            sizes[scale.component].append(scale.size)
    return tuple(s for s in scales if s.size > 0 and _distance(s.size, sizes[s.component]) > math.log(factor))


def _distance(size: float, sizes: Sequence[float]) -> float:
    """From the nearest of the middle sizes of all sources, in logarithms."""
    ordered = sorted(sizes)
    middle = {ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]}
    return max(abs(math.log(size / other)) for other in middle)


def _scale(values: Sequence[ComponentValue]) -> ComponentScale:
    raw = [value.value for value in values]
    return ComponentScale(
        source=values[0].source,
        component=values[0].component,
        num=len(raw),
        mean=fmean(raw),
        std=pstdev(raw),
        low=min(raw),
        high=max(raw),
        weight=values[-1].weight,
    )
