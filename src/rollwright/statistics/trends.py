"""Trends that describe a run and promise nothing beyond it: the entropy law and the compute curve (M134).

Points along one run depend on each other, so the intervals here are narrower than the truth. Refit for another model,
task set or temperature.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval
from rollwright.statistics.resampling import check_resamples, percentile_interval

__all__ = ["EntropyLaw", "TrendPoint", "compute_curve", "entropy_law", "fit_entropy_law"]

_FEWEST_POINTS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPoint:
    """A value that a fitted trend gives."""

    value: float
    warning: str | None
    """Why it is no more than an extrapolation; None within the fitted range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyLaw:
    """R = −a·exp(H) + b, fitted to the evaluations of one run."""

    a: float
    b: float
    a_interval: Interval
    b_interval: Interval
    fitted_on: str
    """Name of the run, model and temperature that the points are of."""
    lowest_entropy: float
    highest_entropy: float
    residual: float
    """Root mean square of what the fit leaves, units of R."""
    r_squared: float | None
    """None where R does not vary."""
    num_points: int

    def at(self, entropy: float, *, of: str) -> TrendPoint:
        """The fitted performance at an entropy.

        Args:
            entropy: nats a token, at least 0.
            of: the run that is asked about; any other than `fitted_on` is refused.

        Returns:
            The value, with a warning outside the range of the fitted points.
        """
        if of != self.fitted_on:
            raise StatisticsError(
                f"the entropy law was fitted on {self.fitted_on!r} and says nothing of {of!r}: a and b change with "
                "model, tasks and temperature. Fit it again on that run."
            )
        if not entropy >= 0.0:
            raise StatisticsError(f"the entropy is {entropy}; it is at least 0 nats.")
        value = float(entropy_law(np.array([entropy]), a=self.a, b=self.b)[0])
        if self.lowest_entropy <= entropy <= self.highest_entropy:
            return TrendPoint(value=value, warning=None)
        return TrendPoint(
            value=value,
            warning=f"entropy {entropy:g} lies outside {self.lowest_entropy:g} to {self.highest_entropy:g}, where "
            f"{self.fitted_on} was fitted: the value is an extrapolation, not a prediction.",
        )

    def ceiling(self) -> TrendPoint:
        """What the law gives at entropy 0, b − a: an extrapolation, since no policy that samples is there."""
        return self.at(0.0, of=self.fitted_on)


def entropy_law(entropy: NDArray[np.float64], *, a: float, b: float) -> NDArray[np.float64]:
    """R = −a·exp(H) + b (arXiv:2505.22617).

    Args:
        entropy: (n,) nats a token.
        a: what a unit of exp(H) is traded for, units of R.
        b: offset; b − a is the value at entropy 0.

    Returns:
        (n,) performance.
    """
    return -a * np.exp(entropy) + b


def fit_entropy_law(
    entropy: NDArray[np.float64],
    performance: NDArray[np.float64],
    *,
    fitted_on: str,
    seed: int = 0,
    resamples: int = 1000,
    level: float = 0.95,
) -> EntropyLaw:
    """Least squares of performance on exp(entropy), with a percentile bootstrap over the points.

    Args:
        entropy: (n,) nats a token, of at least three evaluations with more than one value.
        performance: (n,) held-out performance at the same evaluations.
        fitted_on: name of the run that the points are of.
        seed: of the resampling.
        resamples: at least 1,000; those that drew a single entropy say nothing of a slope and are drawn again.
        level: confidence.

    Returns:
        The fit; it warns outside its range and refuses other runs.
    """
    check_resamples(resamples)
    _check_points(entropy, performance)
    spent = np.exp(entropy)
    slope, offset = (float(one[0]) for one in _lines(spent[None], performance[None]))
    generator = np.random.default_rng(seed)
    places = generator.integers(0, len(spent), (resamples, len(spent)))
    while (is_single := np.ptp(spent[places], axis=1) == 0).any():
        places[is_single] = generator.integers(0, len(spent), (int(is_single.sum()), len(spent)))
    slopes, offsets = _lines(spent[places], performance[places])
    left = performance - (slope * spent + offset)
    around = float(np.square(performance - performance.mean()).sum())
    return EntropyLaw(
        a=-slope,
        b=offset,
        a_interval=percentile_interval(-slopes, level=level, method="point_bootstrap"),
        b_interval=percentile_interval(offsets, level=level, method="point_bootstrap"),
        fitted_on=fitted_on,
        lowest_entropy=float(entropy.min()),
        highest_entropy=float(entropy.max()),
        residual=float(np.sqrt(np.square(left).mean())),
        r_squared=1.0 - float(np.square(left).sum()) / around if around > 0 else None,
        num_points=len(entropy),
    )


def compute_curve(
    compute: NDArray[np.float64], *, floor: float, ceiling: float, midpoint: float, exponent: float
) -> NDArray[np.float64]:
    """R = R₀ + (A − R₀) / (1 + (C_mid / C)^B), the sigmoid in log compute of ScaleRL (arXiv:2510.13786).

    Args:
        compute: (n,) C, at least 0, in any unit.
        floor: R₀, performance before training.
        ceiling: A, what is approached.
        midpoint: C_mid above 0, where half of the gain is made, in the unit of C.
        exponent: B above 0, how steep the rise is.

    Returns:
        (n,) performance; R₀ at C = 0.
    """
    if not (midpoint > 0.0 and exponent > 0.0 and (compute >= 0.0).all()):
        raise StatisticsError(
            f"midpoint {midpoint}, exponent {exponent}, compute from {compute.min(initial=0.0)}; midpoint and exponent "
            "lie above 0, compute is at least 0."
        )
    safe = np.where(compute > 0.0, compute, 1.0)
    # In logs, so that no power of a large number of operations overflows.
    behind = np.clip(exponent * (np.log(midpoint) - np.log(safe)), -700.0, 700.0)
    share = np.where(compute > 0.0, 1.0 / (1.0 + np.exp(behind)), 0.0)
    return floor + (ceiling - floor) * share


def _lines(across: NDArray[np.float64], up: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Slope and offset of the least-squares line of each row of (m, n) points."""
    center, height = across.mean(axis=1, keepdims=True), up.mean(axis=1, keepdims=True)
    away = across - center
    slopes = (away * (up - height)).sum(axis=1) / np.square(away).sum(axis=1)
    return slopes, height[:, 0] - slopes * center[:, 0]


def _check_points(entropy: NDArray[np.float64], performance: NDArray[np.float64]) -> None:
    if entropy.shape != performance.shape or entropy.ndim != 1:
        raise StatisticsError(
            f"entropy has shape {entropy.shape} and performance {performance.shape}; give one of each an evaluation."
        )
    if not (np.isfinite(entropy).all() and np.isfinite(performance).all()):
        raise StatisticsError("entropy and performance are finite; leave evaluations out that lack one of the two.")
    if len(entropy) < _FEWEST_POINTS or len(np.unique(entropy)) < 2:
        raise StatisticsError(
            f"{len(entropy)} points with {len(np.unique(entropy))} entropies; a fit needs at least three points and "
            "two different entropies."
        )
