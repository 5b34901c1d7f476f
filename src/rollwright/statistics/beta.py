"""The incomplete beta function, and what follows from it: Student's t and exact bounds of a proportion."""

import math
from collections.abc import Callable

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval, normal_quantile

__all__ = ["clopper_pearson_interval", "incomplete_beta", "student_p_value", "student_quantile"]

_MOST_TERMS = 10_000
_TINY = 1e-300


def incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularized incomplete beta function I_x(a, b): the chance that a beta(a, b) variable is at most x.

    By its continued fraction (Lentz), on the side where that converges fast.

    Args:
        a: above 0.
        b: above 0.
        x: in [0, 1].

    Returns:
        In [0, 1].
    """
    if not (a > 0 and b > 0 and 0.0 <= x <= 1.0):
        raise StatisticsError(f"the incomplete beta function takes a, b > 0 and x in [0, 1]; given {a}, {b}, {x}.")
    if x in (0.0, 1.0):
        return x
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - incomplete_beta(b, a, 1.0 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    return front * _fraction(a, b, x) / a


def student_p_value(t: float, freedom: int) -> float:
    """Two-sided p of a t statistic: the chance of one at least so far from 0 where the true mean is 0.

    Args:
        t: finite.
        freedom: degrees of freedom, at least 1.

    Returns:
        In [0, 1].
    """
    _check(freedom)
    squared = t * t
    if squared < freedom:
        # From the other side: the share of the square in the sum is exact where 1 minus it is not.
        return 1.0 - incomplete_beta(0.5, freedom / 2.0, squared / (freedom + squared))
    return incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + squared))


def student_quantile(level: float, freedom: int) -> float:
    """The t of a two-sided interval: 2.776 at 0.95 with 4 degrees of freedom.

    Args:
        level: confidence.
        freedom: degrees of freedom, at least 1.

    Returns:
        Above `normal_quantile(level)`, and near it for many degrees of freedom.
    """
    _check(freedom)
    low, high = normal_quantile(level), 2.0 * normal_quantile(level)
    while student_p_value(high, freedom) > 1.0 - level:
        low, high = high, 2.0 * high
    return _root(lambda t: (1.0 - level) - student_p_value(t, freedom), low, high)


def clopper_pearson_interval(successes: int, trials: int, *, level: float = 0.95) -> Interval:
    """The exact interval of a success rate, never below its level; wider than Wilson's.

    For independent trials only, such as the tasks of an evaluation with one attempt each.

    Args:
        successes: count, at most `trials`.
        trials: count; 0 says nothing and gives [0, 1].
        level: confidence.

    Returns:
        The interval.
    """
    if not 0 <= successes <= trials:
        raise StatisticsError(f"{successes} successes in {trials} trials; successes lie between 0 and the trials.")
    normal_quantile(level)
    tail, failures = (1.0 - level) / 2.0, trials - successes
    low = 0.0 if successes == 0 else _beta_quantile(successes, failures + 1, tail)
    high = 1.0 if failures == 0 else _beta_quantile(successes + 1, failures, 1.0 - tail)
    return Interval(low=low, high=high, level=level, method="clopper_pearson")


def _fraction(a: float, b: float, x: float) -> float:
    up, down = 1.0, 1.0 / _off_zero(1.0 - (a + b) * x / (a + 1.0))
    value = down
    for term in range(1, _MOST_TERMS):
        even = term * (b - term) * x / ((a + 2 * term - 1.0) * (a + 2 * term))
        odd = -(a + term) * (a + b + term) * x / ((a + 2 * term) * (a + 2 * term + 1.0))
        step = 1.0
        for part in (even, odd):
            up, down = _off_zero(1.0 + part / up), 1.0 / _off_zero(1.0 + part * down)
            step = up * down
            value *= step
        if abs(step - 1.0) < 1e-16:
            break
    return value


def _off_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _beta_quantile(a: float, b: float, chance: float) -> float:
    return _root(lambda x: incomplete_beta(a, b, x) - chance, 0.0, 1.0)


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function is 0, by halving to the last bits."""
    for _ in range(200):
        middle = (low + high) / 2.0
        if middle in (low, high):
            break
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return (low + high) / 2.0


def _check(freedom: int) -> None:
    if freedom < 1:
        raise StatisticsError(f"{freedom} degrees of freedom; Student's t needs at least 1, so two differences.")
