"""A proxy reward that rises while what it stands for falls: gold against the square root of KL (arXiv:2210.10760)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollwright.statistics.errors import StatisticsError

__all__ = ["GoldCurve", "GoldPoint", "fit_gold_curve", "is_overoptimized"]

_FEWEST_POINTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPoint:
    """One evaluation."""

    kl: float
    """Nats from the policy that training began with, at least 0."""
    proxy: float
    """What is trained on."""
    gold: float
    """What it stands for, measured by something that is not trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldCurve:
    """gold − gold₀ = d·(a − b·d) with d = √KL, as for best-of-n."""

    a: float
    b: float
    start: float
    """Gold at KL 0."""
    peak_distance: float | None
    """√KL at which gold is highest, a/(2b); None where the curve does not turn."""

    def at(self, kl: float) -> float:
        """Gold at a KL in nats."""
        distance = math.sqrt(kl)
        return self.start + distance * (self.a - self.b * distance)


def fit_gold_curve(points: Sequence[GoldPoint]) -> GoldCurve:
    """Least squares of gold on √KL and KL.

    Args:
        points: at least three with different KL.
    """
    distances = np.sqrt(np.array([point.kl for point in points], dtype=np.float64))
    if len(points) < _FEWEST_POINTS or len(np.unique(distances)) < _FEWEST_POINTS or not np.isfinite(distances).all():
        raise StatisticsError(f"{len(points)} points; the curve needs at least three with different KL, none below 0.")
    design = np.stack([np.ones_like(distances), distances, -np.square(distances)], axis=1)
    found = np.linalg.lstsq(design, np.array([point.gold for point in points], dtype=np.float64), rcond=None)[0]
    start, a, b = (float(value) for value in found)
    return GoldCurve(a=a, b=b, start=start, peak_distance=a / (2 * b) if a > 0 and b > 0 else None)


def is_overoptimized(points: Sequence[GoldPoint], *, window: int, tolerance: float = 0.0) -> bool:
    """Whether to stop: over the last evaluations the proxy rose and gold fell.

    Args:
        points: in the order of training.
        window: evaluations that are looked at, at least 3: the trend is that of a line through them.
        tolerance: how far gold may fall along the line over the window, in its own units, for noise.
    """
    if window < _FEWEST_POINTS:
        raise StatisticsError(f"a window of {window} evaluations; at least {_FEWEST_POINTS} show a trend.")
    if len(points) < window:
        return False
    steps = np.arange(window, dtype=np.float64)
    last = points[-window:]
    proxy, gold = (
        float(np.polyfit(steps, np.array(values, dtype=np.float64), 1)[0]) * (window - 1)
        for values in ([point.proxy for point in last], [point.gold for point in last])
    )
    return proxy > 0 and gold < -tolerance
