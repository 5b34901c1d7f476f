"""An entropy coefficient that rises while entropy is below a target, and acts there alone (M86)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollwright.algorithms.controllers import metric_of
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["MagicEntropy"]


@dataclass(slots=True, kw_only=True, eq=False)
class MagicEntropy:
    """c rises by a step below the target and falls by it above; the coefficient is c where entropy ≤ target, else 0.

    From the report on Skywork-OR1. Its equation has no floor, so that c can go below 0 and then punish entropy below
    the target; the floor here is 0. Its script has step 1e-4 and cap 0.005; TRL has floor 0, cap 1 and tie `raise`.
    An update's coefficient follows the entropy of the update before it, the newest that was measured.
    """

    target: float = 0.2
    """H*, nats a token."""
    step: float = 0.005
    """Δ, above 0."""
    floor: float | None = 0.0
    """Of c; None is the report's equation."""
    cap: float | None = None
    """Of c; None: none."""
    tie: Literal["none", "raise"] = "none"
    """At entropy = target: c unchanged (the report), or raised (TRL)."""
    metric: str = "entropy/full"
    """The logged metric that is followed."""
    _state: float = field(init=False, default=0.0)
    _is_active: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Refuse a step or bounds that do not hold 0, where c begins."""
        low, high = self._range()
        if not (self.step > 0 and low <= 0 <= high and self.target > 0):
            raise ObjectiveError(
                f"the entropy controller has target={self.target}, step={self.step}, floor={self.floor}, "
                f"cap={self.cap}; target and step are above 0, and c begins at 0, which lies between floor and cap."
            )

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Take the entropy of an update; one that is not finite changes nothing."""
        entropy = metric_of(metrics, self.metric, read_by="the entropy controller")
        if not math.isfinite(entropy):
            return
        self._is_active = entropy <= self.target
        if entropy < self.target or (entropy == self.target and self.tie == "raise"):
            self._state += self.step
        elif entropy > self.target:
            self._state -= self.step
        if self.floor is not None:
            self._state = max(self._state, self.floor)
        if self.cap is not None:
            self._state = min(self._state, self.cap)

    def value(self) -> float:
        """The coefficient of the next update, by the newest entropy; 0 before the first."""
        return self._state if self._is_active else 0.0

    def at(self, entropy: float) -> float:
        """The coefficient of an update whose own entropy is known beforehand: c where entropy ≤ target, else 0."""
        return self._state if entropy <= self.target else 0.0

    def state(self) -> Mapping[str, float]:
        """c, and whether the newest entropy lets it act."""
        return {"c": self._state, "is_active": float(self._is_active)}

    def restore(self, state: Mapping[str, float]) -> None:
        """Take c and its activity back."""
        value, is_active = state.get("c", math.nan), state.get("is_active", math.nan)
        low, high = self._range()
        if not low <= value <= high or is_active not in (0.0, 1.0) or math.isinf(value):
            raise ObjectiveError(
                f"the entropy controller was to go on from {dict(state)}; it goes on from what `state` gave, a finite "
                f"`c` from {low} to {high} and an `is_active` of 0 or 1."
            )
        self._state = value
        self._is_active = is_active != 0.0

    def _range(self) -> tuple[float, float]:
        return -math.inf if self.floor is None else self.floor, math.inf if self.cap is None else self.cap
