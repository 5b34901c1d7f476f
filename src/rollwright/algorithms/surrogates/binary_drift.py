"""Tokens whose probability has moved too far their own way are dropped: DPPO-binary with its drift term (M63)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.importance_mask import flag_masked

__all__ = ["BinaryDrift", "squared_drift"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryDrift:
    """ρA, but 0 where A > 0 and π − μ > high, or A < 0 and π − μ < −low: differences of probability (prime-rl).

    ρ is current/behavior, `bypass_ratio`, and is differentiated. The drift term `squared_drift` is a regularizer of
    coefficient 1e-3, so that rows without advantage feel it too.
    """

    low: float = 0.2
    """Fall of a bad token's probability that is still inside."""
    high: float = 0.2
    """Rise of a good token's probability that is still inside."""

    def __post_init__(self) -> None:
        """Refuse distances that would drop an unchanged policy."""
        if not (self.low >= 0.0 and self.high >= 0.0):
            raise ObjectiveError(
                f"the drift mask has low = {self.low} and high = {self.high}; they are differences of probability, at "
                "least 0, such as 0.2."
            )

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Drop each token that has gone far enough its own way.

        Args:
            ratio: (T,) current over behavior with the gradient of current.
            streams: cleaned; advantages, current and behavior log-probabilities (T,).

        Returns:
            (T,) to be maximised; flags token mask, and the side, where dropped.
        """
        moved = (stream_of(streams, "current").exp() - stream_of(streams, "behavior").exp()).detach()
        is_high = (streams.advantages > 0) & (moved > self.high)
        is_low = (streams.advantages < 0) & (moved < -self.low)
        return Surrogate(
            per_token=torch.where(is_high | is_low, 0.0, ratio) * streams.advantages,
            flags=flag_masked(is_low, is_high),
        )


def squared_drift(streams: TokenStreams) -> Tensor:
    """(c − b)²: how far each token has moved from the policy that sampled it, to be minimised.

    Args:
        streams: cleaned, with current and behavior.

    Returns:
        (T,) squared nats with the gradient of current; 0 at masked tokens.
    """
    return (stream_of(streams, "current") - stream_of(streams, "behavior")).square()
