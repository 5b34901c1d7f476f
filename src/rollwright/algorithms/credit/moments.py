"""Count, sum and spread of advantages, in a form that adds up over ranks, and what is scaled by them (M06, M07, M33).

A rank makes the moments of its own tokens and adds those of the others: the result is that of all tokens together,
however they lie on the ranks. Averages of rank means, or moments of a rank alone, are neither.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import EQUAL_REWARDS
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["Guard", "Moments", "moments_of", "scale", "whiten"]

Guard = Literal["std", "variance"]
"""Where epsilon stands: σ + ε, or √(σ² + ε)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Moments:
    """Moments of K families of values; a rank without values has zeros, and adding it changes nothing."""

    count: Tensor
    """(K,) float64"""
    total: Tensor
    """(K,) float64, sum of the values."""
    squares: Tensor
    """(K,) float64, sum of squared distances from the mean: no cancellation of large numbers."""
    low: Tensor
    """(K,) float64, smallest value; inf where there is none."""
    high: Tensor
    """(K,) float64, largest value; -inf where there is none."""

    @property
    def mean(self) -> Tensor:
        """(K,) float64; 0 where there is no value."""
        return self.total / self.count.clamp(min=1.0)

    @property
    def is_level(self) -> Tensor:
        """(K,) bool, fewer than two values, or one level of them: nothing to scale by (E1, E2)."""
        size = torch.maximum(self.low.abs(), self.high.abs()).clamp(min=1.0)
        return (self.count < 2) | (self.high - self.low <= EQUAL_REWARDS * size)

    def variance(self, ddof: int) -> Tensor:
        """(K,) float64: squares over count − ddof; `ddof` is 0 or 1."""
        if ddof not in (0, 1):
            raise ObjectiveError(f"ddof is {ddof}; it is 0 or 1.")
        return self.squares / (self.count - ddof).clamp(min=1.0)

    def __add__(self, other: "Moments") -> "Moments":
        """The moments of both together."""
        if self.count.shape != other.count.shape:
            raise ObjectiveError(
                f"moments of {len(self.count)} families do not add to those of {len(other.count)}; number the "
                "families alike on every rank."
            )
        count = self.count + other.count
        between = (self.mean - other.mean).square() * self.count * other.count / count.clamp(min=1.0)
        return Moments(
            count=count,
            total=self.total + other.total,
            squares=self.squares + other.squares + between,
            low=torch.minimum(self.low, other.low),
            high=torch.maximum(self.high, other.high),
        )


def moments_of(values: Tensor, family: Tensor | None = None, num_families: int = 1) -> Moments:
    """Moments of values, by family.

    Args:
        values: (n,) float64, trained tokens alone: what is masked is left out before, never put to zero.
        family: (n,) int64 in 0…K−1; None puts all into one.
        num_families: K, the same on every rank.

    Returns:
        (K,) moments; zeros for a family, or a rank, without values.
    """
    if family is None:
        place = values.new_zeros(len(values), dtype=torch.int64)
    elif family.shape == values.shape:
        place = family
    else:
        raise ObjectiveError(f"{len(values)} values have {len(family)} families; give one a value.")
    start = values.new_zeros(num_families, dtype=torch.float64)
    exact = values.to(torch.float64)
    count = torch.bincount(place, minlength=num_families).to(torch.float64)
    total = start.index_add(0, place, exact)
    centered = exact - (total / count.clamp(min=1.0))[place]
    return Moments(
        count=count,
        total=total,
        squares=start.index_add(0, place, centered.square()),
        low=torch.full_like(start, torch.inf).scatter_reduce(0, place, exact, "amin"),
        high=torch.full_like(start, -torch.inf).scatter_reduce(0, place, exact, "amax"),
    )


def whiten(
    values: Tensor, moments: Moments, family: Tensor | None = None, *, ddof: int, eps: float, guard: Guard
) -> Tensor:
    """Values minus their mean, over their spread.

    Args:
        values: (n,) float64.
        moments: of all values, over all ranks.
        family: (n,) int64 of each value; None where there is one family.
        ddof: 1 divides the squares by count − 1, 0 by count.
        eps: at least 0.
        guard: where it stands.

    Returns:
        (n,) float64 of mean 0 and spread 1; 0 in a family of fewer than two values or of one level.
    """
    return _over_spread(values - _of(moments.mean, family), moments, family, _spread(moments, ddof, eps, guard))


def scale(
    values: Tensor, moments: Moments, family: Tensor | None = None, *, ddof: int, eps: float, guard: Guard
) -> Tensor:
    """Values over their spread, with their mean where it was: x/σ, not (x − μ)/σ + μ.

    Args:
        values: (n,) float64.
        moments: of all values, over all ranks.
        family: (n,) int64 of each value; None where there is one family.
        ddof: 1 divides the squares by count − 1, 0 by count.
        eps: at least 0.
        guard: where it stands.

    Returns:
        (n,) float64 of spread 1; 0 in a family of fewer than two values or of one level.
    """
    return _over_spread(values, moments, family, _spread(moments, ddof, eps, guard))


def _spread(moments: Moments, ddof: int, eps: float, guard: Guard) -> Tensor:
    if not eps >= 0:
        raise ObjectiveError(f"eps is {eps}; it is at least 0.")
    variance = moments.variance(ddof)
    return variance.sqrt() + eps if guard == "std" else (variance + eps).sqrt()


def _over_spread(values: Tensor, moments: Moments, family: Tensor | None, spread: Tensor) -> Tensor:
    inverse = torch.where(moments.is_level, 0.0, 1.0 / torch.where(moments.is_level, 1.0, spread))
    return values * _of(inverse, family)


def _of(per_family: Tensor, family: Tensor | None) -> Tensor:
    if family is None and len(per_family) != 1:
        raise ObjectiveError(f"the moments have {len(per_family)} families; say which each value is of.")
    return per_family if family is None else per_family[family]
