"""One number of a run: a mean, a maximum or a count, with its unit and how much it is made of.

Means are taken in float64. A mean over nothing is None, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

__all__ = ["Diagnostic", "is_finite", "largest_of", "masked_mean", "mean_of", "share_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One number; its name stands in the list of metrics."""

    name: str
    value: float | None
    """None: undefined, because there was nothing to measure."""
    unit: str
    num_items: int
    """Tokens, rows, episodes or groups that the value is made of."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def masked_mean(values: Tensor, mask: Tensor) -> float | None:
    """Mean of (T,) values over (T,) bool mask in float64; None over nothing. Values elsewhere are not read."""
    return _mean(values[mask])


def is_finite(values: Tensor) -> Tensor:
    """(n,) bool, as `isfinite` has it in several times the time."""
    return values.abs() < torch.inf


def mean_of(name: str, values: Tensor, unit: str, labels: Mapping[str, str] | None = None) -> Diagnostic:
    """The mean of (n,) values; None where there are none."""
    return Diagnostic(name=name, value=_mean(values), unit=unit, num_items=len(values), labels=labels or {})


def largest_of(name: str, values: Tensor, unit: str, labels: Mapping[str, str] | None = None) -> Diagnostic:
    """The largest of (n,) values; None where there are none."""
    value = float(values.max()) if len(values) else None
    return Diagnostic(name=name, value=value, unit=unit, num_items=len(values), labels=labels or {})


def share_of(name: str, where: Tensor, labels: Mapping[str, str] | None = None) -> Diagnostic:
    """The share of (n,) bool that is True; None where there are none."""
    return mean_of(name, where, "fraction", labels)


def _mean(values: Tensor) -> float | None:
    return float(values.detach().to(torch.float64).mean()) if len(values) else None
