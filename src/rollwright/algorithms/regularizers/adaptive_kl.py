"""A KL coefficient that holds the KL near a target (M84)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rollwright.algorithms.controllers import metric_of
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["AdaptiveKl"]


@dataclass(slots=True, kw_only=True, eq=False)
class AdaptiveKl:
    """β ← β(1 + clip(KL/target − 1, ±bound)·n/horizon), after every update (arXiv:1909.08593; public code: verl).

    A KL that is not above 0, or not finite, changes nothing: public code takes the lower clip there, and a coefficient
    would fall on noise.
    """

    initial: float
    """β before the first update, at least 0."""
    target: float
    """KL to hold, nats a token, above 0."""
    num_rows: int
    """n, rows of an update."""
    horizon: int = 10_000
    """Rows over which a coefficient moves by a factor e at most once a bound."""
    bound: float = 0.2
    """Of the relative error."""
    metric: str = "policy/kl_ref"
    """The logged metric that is followed."""
    _coefficient: float = field(init=False)

    def __post_init__(self) -> None:
        """Refuse numbers that control nothing, and begin."""
        if not (self.initial >= 0 and self.target > 0 and self.bound > 0):
            raise ObjectiveError(
                f"an adaptive KL has initial={self.initial}, target={self.target}, bound={self.bound}; initial is at "
                "least 0, the others are above 0."
            )
        if not 1 <= self.num_rows <= self.horizon or self.bound * self.num_rows >= self.horizon:
            raise ObjectiveError(
                f"an adaptive KL has num_rows={self.num_rows} and horizon={self.horizon}; the horizon is a number of "
                "rows, longer than an update's."
            )
        self._coefficient = self.initial

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Move by the relative error of the KL."""
        kl = metric_of(metrics, self.metric, read_by="an adaptive KL")
        if math.isfinite(kl) and kl > 0:
            error = min(max(kl / self.target - 1.0, -self.bound), self.bound)
            self._coefficient *= 1.0 + error * self.num_rows / self.horizon

    def value(self) -> float:
        """β of the next update."""
        return self._coefficient

    def state(self) -> Mapping[str, float]:
        """The coefficient."""
        return {"coefficient": self._coefficient}

    def restore(self, state: Mapping[str, float]) -> None:
        """Take the coefficient back."""
        coefficient = state.get("coefficient", math.nan)
        if not 0.0 <= coefficient < math.inf:
            raise ObjectiveError(
                f"an adaptive KL was to go on from {dict(state)}; it goes on from what `state` gave, a finite "
                "`coefficient` of at least 0."
            )
        self._coefficient = coefficient
