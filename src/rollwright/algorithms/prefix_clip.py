"""The clip on the ratio of the whole prefix, in a band that widens with the position: CTPO (M54)."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rollwright.algorithms.clipping import clip_ratio
from rollwright.algorithms.dual_clip import bound_losses
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.rows import row_sum, spread_rows

__all__ = ["Band", "PrefixClip", "action_ordinals"]


class Band(NamedTuple):
    """Bounds of each token's ratio, (T,) float64."""

    low: Tensor
    high: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixClip:
    """PPO's clip on ρ_{1:t} in [exp(−ℓ·t^p), exp(h·t^p)], t counting the row's action tokens from 1 (public CTPO code).

    The log of a product of t ratios spreads like √t. Only a token's own log-probability is differentiated. For the
    geometric ratio take p = −0.5.
    """

    low: float = 0.025
    """ℓ, nats at the first token."""
    high: float = 0.05
    """h, nats at the first token."""
    dual: float | None = 0.05
    """Nats at the first token: from exp(dual·t^p) on a bad token has no gradient. None is off."""
    power: float = 0.5
    """p"""

    def __post_init__(self) -> None:
        """Refuse a band that does not hold 1."""
        for name, value in (("low", self.low), ("high", self.high), ("dual", self.dual)):
            if value is not None and not value > 0.0:
                raise ObjectiveError(f"the prefix clip has {name} = {value}; it is a distance in nats, above 0.")

    def band(self, streams: TokenStreams) -> Band:
        """The bounds of each token.

        Args:
            streams: row offsets and action mask.

        Returns:
            (T,) each; 1 outside the action mask.
        """
        reach = self._reach(streams)
        return Band(torch.exp(-self.low * reach), torch.exp(self.high * reach))

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each prefix by the sign of its advantage.

        Args:
            ratio: (T,) of the prefix that ends at the token; a gradient through the prefix is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flags clipped high, clipped low and dual clip.
        """
        current = stream_of(streams, "current")
        own = ratio.detach() * torch.exp(current - current.detach())
        band = self.band(streams)
        clipped = clip_ratio(own, streams.advantages, band.low.to(own.dtype), band.high.to(own.dtype))
        if self.dual is None:
            return clipped
        dual = torch.exp(self.dual * self._reach(streams)).to(own.dtype)
        return bound_losses(clipped, own, streams.advantages, dual)

    def _reach(self, streams: TokenStreams) -> Tensor:
        """(T,) float64 t^p at action tokens, 0 elsewhere."""
        ordinals = action_ordinals(streams).to(torch.float64)
        return torch.where(streams.action_mask, ordinals.clamp(min=1.0) ** self.power, 0.0)


def action_ordinals(streams: TokenStreams) -> Tensor:
    """(T,) int64: 1, 2, … at the action tokens of each row, gaps not counted; 0 elsewhere."""
    counted = streams.action_mask.to(torch.int64)
    before_row = torch.cat([counted.new_zeros(1), row_sum(counted, streams.row_offsets).cumsum(0)[:-1]])
    ordinals = counted.cumsum(0) - spread_rows(before_row[: len(streams.row_offsets) - 1], streams.row_offsets)
    return torch.where(streams.action_mask, ordinals, 0)
