"""Intervals of one proportion of independent trials (M130)."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from rollwright.statistics.errors import StatisticsError

__all__ = ["Interval", "level_of", "normal_quantile", "wilson_interval"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A range at a level, with the name of the method that made it."""

    low: float
    high: float
    level: float
    """Confidence, such as 0.95."""
    method: str


def wilson_interval(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """Wilson's interval of a success rate, inside [0, 1] and honest at 0 and 1.

    For independent trials only: attempts at one task are correlated, see `clustered.py`.

    Args:
        successes: count, at most `trials`.
        trials: count; 0 says nothing and gives [0, 1].
        level: confidence.

    Returns:
        The interval.
    """
    if not 0 <= successes <= trials:
        raise StatisticsError(f"{successes} successes in {trials} trials; successes lie between 0 and the trials.")
    z = normal_quantile(level)
    if trials == 0:
        return Interval(low=0.0, high=1.0, level=level, method="wilson")
    rate, widening = successes / trials, z * z / trials
    center = (rate + widening / 2.0) / (1.0 + widening)
    half = z * math.sqrt(rate * (1.0 - rate) / trials + widening / (4.0 * trials)) / (1.0 + widening)
    # At 0 and at all successes the bound is exact; the subtraction leaves its last bits.
    low = 0.0 if successes == 0 else max(0.0, center - half)
    high = 1.0 if successes == trials else min(1.0, center + half)
    return Interval(low=low, high=high, level=level, method="wilson")


def normal_quantile(level: float) -> float:
    """The z of a two-sided interval: 1.96 at 0.95."""
    if not 0.0 < level < 1.0:
        raise StatisticsError(f"the level is {level}; it lies between 0 and 1, such as 0.95.")
    return NormalDist().inv_cdf(0.5 + level / 2.0)


def level_of(z: float) -> float:
    """The level of a two-sided interval of z deviations: 0.95 at 1.96; what `normal_quantile` undoes."""
    if not 0.0 < z < math.inf:
        raise StatisticsError(f"z is {z}; it is above 0 and finite, such as 1.96.")
    return math.erf(z / math.sqrt(2.0))
