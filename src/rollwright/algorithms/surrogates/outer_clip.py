"""A clip inside a hard bound of the ratio, with an upper bound that follows the entropy (M64)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of, metric_of
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import OUTER_CLIP, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import Bound, check_band
from rollwright.algorithms.surrogates.clipping import clip_ratio

__all__ = ["AdaptiveUpperBound", "OuterClip"]

_WHO = "MAI-Thinking-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterClip:
    """min(r·A, clip(ρ)·A) with r = ρ held in the outer bounds, beyond which no ratio has a gradient."""

    low: float | None = None
    """Lower bound of the ratio itself, 1 − ε. Not disclosed."""
    high: Bound | None = None
    """Upper bound of the ratio itself, 1/(1 − ε) + k: a number, or `AdaptiveUpperBound`. Not disclosed."""
    outer_low: float | None = None
    """The least ratio that enters the loss. Not disclosed."""
    outer_high: float | None = None
    """The largest ratio that enters the loss. Not disclosed."""

    def __post_init__(self) -> None:
        """Refuse bounds that were left out, and outer bounds inside the inner ones."""
        low, high = self.band
        check_band("the clip", low, high)
        outer_low, outer_high = self.outer_band
        check_band("the outer clip", outer_low, outer_high)
        if outer_low > low or outer_high < high:
            raise ObjectiveError(
                f"the outer clip [{outer_low}, {outer_high}] lies inside the clip [{low}, {high}]; it is the wider one."
            )

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the clip as they are now."""
        low = chosen("low", self.low, undisclosed_by=_WHO)
        return low, coefficient_of(chosen("high", self.high, undisclosed_by=_WHO))

    @property
    def outer_band(self) -> tuple[float, float]:
        """Lower and upper bound of what enters the loss."""
        low = chosen("outer_low", self.outer_low, undisclosed_by=_WHO)
        return low, chosen("outer_high", self.outer_high, undisclosed_by=_WHO)

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Hold each ratio in the outer bounds, then clip it by the sign of its advantage.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised; flags outer clip, or else clipped high and low: a token is counted under one of them.
        """
        low, high = self.band
        outer_low, outer_high = self.outer_band
        is_outside = (ratio > outer_high) | (ratio < outer_low)
        held = torch.where(is_outside, ratio.detach().clamp(min=outer_low, max=outer_high), ratio)
        clipped = clip_ratio(held, streams.advantages, low, high)
        return Surrogate(
            per_token=clipped.per_token,
            flags=torch.where(is_outside, raise_flag(is_outside, OUTER_CLIP), clipped.flags),
        )


@dataclass(slots=True, kw_only=True, eq=False)
class AdaptiveUpperBound:
    """Controller of a clip's upper bound, 1/low + k: k rises while the entropy is under its target, and falls above it.

    k ← clip(k + step·sign(target − entropy), 0, largest), on the entropy of the update before; k starts at 0.
    """

    low: float | None = None
    """Lower bound of the clip itself, 1 − ε. Not disclosed."""
    step: float | None = None
    """δ, ratio per update. Not disclosed."""
    largest: float | None = None
    """Where k ends, a ratio; to stand there is an alarm. Not disclosed."""
    target: float = 0.3
    """Entropy to hold, nats a token."""
    metric: str = "entropy/full"
    """The logged metric that is followed."""
    _widening: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        """Refuse numbers that were left out or control nothing."""
        if not (0.0 < self._chosen_low() <= 1.0 and self._chosen_step() > 0.0 and self._chosen_largest() >= 0.0):
            raise ObjectiveError(
                f"the adaptive bound has low = {self.low}, step = {self.step} and largest = {self.largest}; low is a "
                "ratio in (0, 1], step is above 0 and largest at least 0."
            )

    @property
    def widening(self) -> float:
        """k, how far the bound stands above 1/low."""
        return self._widening

    @property
    def is_saturated(self) -> bool:
        """Whether k stands at its end: the entropy could not be raised."""
        return self._widening >= self._chosen_largest()

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Take the entropy of an update; one that could not measure it moves nothing."""
        error = self.target - metric_of(metrics, self.metric, read_by="an adaptive upper bound")
        if not math.isfinite(error) or error == 0.0:
            return
        moved = self._widening + math.copysign(self._chosen_step(), error)
        self._widening = min(max(moved, 0.0), self._chosen_largest())

    def value(self) -> float:
        """The upper bound of the next update, a ratio."""
        return 1.0 / self._chosen_low() + self._widening

    def state(self) -> Mapping[str, float]:
        """All that is needed to go on: k."""
        return {"widening": self._widening}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a k that `state` gave."""
        widening = state["widening"]
        if not 0.0 <= widening <= self._chosen_largest():
            raise ObjectiveError(
                f"the adaptive bound was to go on from a widening of {widening}; it lies in 0 to {self.largest}."
            )
        self._widening = widening

    def _chosen_low(self) -> float:
        return chosen("low", self.low, undisclosed_by=_WHO)

    def _chosen_step(self) -> float:
        return chosen("step", self.step, undisclosed_by=_WHO)

    def _chosen_largest(self) -> float:
        return chosen("largest", self.largest, undisclosed_by=_WHO)
