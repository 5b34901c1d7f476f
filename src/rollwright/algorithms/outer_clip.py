"""A clip inside a hard bound of the ratio, with an upper bound that follows the entropy (M64)."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.bounds import Bound, check_band, read_bound
from rollwright.algorithms.clipping import clip_ratio
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import OUTER_CLIP, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams

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
        return low, read_bound(chosen("high", self.high, undisclosed_by=_WHO))

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


class AdaptiveUpperBound:
    """Controller of a clip's upper bound, 1/low + k: k rises while the entropy is under its target, and falls above it.

    k ← clip(k + step·sign(target − entropy), 0, largest), on the entropy of the update before; k starts at 0.
    """

    def __init__(
        self,
        *,
        low: float | None = None,
        step: float | None = None,
        largest: float | None = None,
        target: float = 0.3,
        metric: str = "entropy/full",
    ) -> None:
        self.low = chosen("low", low, undisclosed_by=_WHO)
        """Lower bound of the clip, 1 − ε."""
        self.step = chosen("step", step, undisclosed_by=_WHO)
        """δ, ratio per update."""
        self.largest = chosen("largest", largest, undisclosed_by=_WHO)
        """Where k ends; to stand there is an alarm."""
        self.target = target
        """Nats."""
        self.metric = metric
        """Name of the entropy that is followed, mean nats per token."""
        self._widening = 0.0
        if not (0.0 < self.low <= 1.0 and self.step > 0.0 and self.largest >= 0.0):
            raise ObjectiveError(
                f"the adaptive bound has low = {low}, step = {step} and largest = {largest}; low is a ratio in (0, 1], "
                "step is above 0 and largest at least 0."
            )

    @property
    def widening(self) -> float:
        """k, how far the bound stands above 1/low."""
        return self._widening

    @property
    def is_saturated(self) -> bool:
        """Whether k stands at its end: the entropy could not be raised."""
        return self._widening >= self.largest

    def observe(self, metrics: Mapping[str, float]) -> None:
        """Take the entropy of an update; one that did not measure it moves nothing."""
        entropy = metrics.get(self.metric)
        if entropy is None or entropy == self.target:
            return
        moved = self._widening + (self.step if entropy < self.target else -self.step)
        self._widening = min(max(moved, 0.0), self.largest)

    def value(self) -> float:
        """The upper bound of the next update, a ratio."""
        return 1.0 / self.low + self._widening

    def state(self) -> Mapping[str, float]:
        """All that is needed to go on: k."""
        return {"widening": self._widening}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a k that `state` gave."""
        widening = state.get("widening")
        if widening is None or not 0.0 <= widening <= self.largest:
            raise ObjectiveError(
                f"the adaptive bound was given the state {dict(state)}; it needs widening, in 0 to {self.largest}."
            )
        self._widening = widening
