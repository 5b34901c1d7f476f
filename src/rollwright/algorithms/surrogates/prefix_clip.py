"""The clip on the ratio of the whole prefix, in a band that widens with the position: CTPO (M54)."""

import math
from dataclasses import dataclass

from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.ratios.prefix_ratios import prefix_band
from rollwright.algorithms.ratios.prefix_sums import action_places
from rollwright.algorithms.surrogates.clipping import clip_ratio
from rollwright.algorithms.surrogates.dual_clip import bound_losses

__all__ = ["PrefixClip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixClip:
    """PPO's clip on ρ_{1:t} in [exp(−ℓ·t^p), exp(h·t^p)], t counting the row's action tokens from 1 (public CTPO code).

    Takes `prefix_ratio`, whose gradient is that of the token's own log-probability. The log of a product of t ratios
    spreads like √t; for `prefix_mean_ratio` take p = −0.5.
    """

    low: float = 0.025
    """ℓ, nats at the first token."""
    high: float = 0.05
    """h, nats at the first token."""
    dual: float | None = 0.05
    """Nats at the first token: beyond exp(dual·t^p) a bad token has no gradient. None is off."""
    power: float = 0.5
    """p"""

    def __post_init__(self) -> None:
        """Refuse a band that does not hold 1."""
        for name, value in (("low", self.low), ("high", self.high), ("dual", self.dual)):
            if value is not None and not value > 0.0:
                raise ObjectiveError(f"the prefix clip has {name} = {value}; it is a distance in nats, above 0.")
        if not math.isfinite(self.power):
            raise ObjectiveError(f"the prefix clip has power = {self.power}; it is a finite number, such as 0.5.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each prefix by the sign of its advantage.

        Args:
            ratio: (T,) of the prefix that ends at the token, with the gradient of the token's own current score.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised; flags clipped high, clipped low and dual clip.
        """
        places = action_places(streams.action_mask, streams.row_offsets)
        low, high = prefix_band(places, low=self.low, high=self.high, power=self.power)
        clipped = clip_ratio(ratio, streams.advantages, low.to(ratio.dtype), high.to(ratio.dtype))
        if self.dual is None:
            return clipped
        _, dual = prefix_band(places, low=self.low, high=self.dual, power=self.power)
        return bound_losses(clipped, ratio, streams.advantages, dual.to(ratio.dtype))
