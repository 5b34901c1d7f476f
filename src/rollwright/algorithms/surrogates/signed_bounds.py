"""Four bounds of the ratio, by the sign of the advantage and the side: MiMo-V2.6 (M65)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, has_flag, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import Bound, check_band
from rollwright.algorithms.surrogates.by_sign import choose
from rollwright.algorithms.surrogates.importance_mask import flag_masked
from rollwright.algorithms.surrogates.likelihood import weigh_logprobs

__all__ = ["SideCounts", "SignedBounds", "count_sides"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedBounds:
    """ρA inside the band of the advantage's sign; outside nothing, or the weight of the bound (MiMo-V2.6).

    ρ is current/behavior, `bypass_ratio`. Whether MiMo drops or holds tokens outside is not told; dropping is our
    reading. How it moves the bounds with the entropy is not disclosed: each may be a controller.
    """

    positive_low: float = 0.2
    """For A > 0; a ratio on a bound is inside."""
    positive_high: Bound = 5.0
    """For A > 0."""
    negative_low: float = 0.2
    """For A < 0."""
    negative_high: Bound = 5.0
    """For A < 0."""
    outside: Literal["mask", "clip"] = "mask"
    """`mask`: a token outside has no gradient. `clip`: it has that of the bound, sg(clip(ρ))·A·c, as in CISPO."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1."""
        check_band("the band of A > 0", self.positive_low, self.positive_high)
        check_band("the band of A < 0", self.negative_low, self.negative_high)
        if self.outside not in ("mask", "clip"):
            raise ObjectiveError(f"outside the signed bounds is {self.outside!r}; it is 'mask' or 'clip'.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Drop or hold each token by the band of its sign.

        Args:
            ratio: (T,) current over behavior with the gradient of current.
            streams: cleaned; advantages, and for `clip` current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flags clipped high or clipped low outside, with token mask where dropped.
        """
        is_positive, like = streams.advantages > 0, ratio.detach()
        low = choose(is_positive, self.positive_low, self.negative_low, like=like)
        high = choose(is_positive, coefficient_of(self.positive_high), coefficient_of(self.negative_high), like=like)
        has_sign = streams.advantages != 0
        is_high, is_low = has_sign & (ratio > high), has_sign & (ratio < low)
        if self.outside == "clip":
            flags = raise_flag(is_high, CLIPPED_HIGH) | raise_flag(is_low, CLIPPED_LOW)
            return weigh_logprobs(ratio.clamp(min=low, max=high) * streams.advantages, flags, streams)
        return Surrogate(
            per_token=torch.where(is_high | is_low, 0.0, ratio) * streams.advantages,
            flags=flag_masked(is_low, is_high),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCounts:
    """Action tokens that each of four bounds has touched."""

    positive_low: int
    positive_high: int
    negative_low: int
    negative_high: int


def count_sides(flags: Tensor, streams: TokenStreams) -> SideCounts:
    """Count the tokens that left a band, by the sign of their advantage and the side.

    Args:
        flags: (T,) int32 bits of the loss or of the surrogate.
        streams: advantages and action mask (T,).

    Returns:
        Four counts of tokens.
    """
    is_low = streams.action_mask & has_flag(flags, CLIPPED_LOW)
    is_high = streams.action_mask & has_flag(flags, CLIPPED_HIGH)
    is_positive, is_negative = streams.advantages > 0, streams.advantages < 0
    return SideCounts(
        positive_low=int((is_low & is_positive).sum()),
        positive_high=int((is_high & is_positive).sum()),
        negative_low=int((is_low & is_negative).sum()),
        negative_high=int((is_high & is_negative).sum()),
    )
