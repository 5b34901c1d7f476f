"""Tokens outside a band are dropped and not moved to its bound: masked importance and double-sided masks (M61, M62)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, TOKEN_MASK, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import check_band
from rollwright.algorithms.surrogates.likelihood import weigh_logprobs

__all__ = ["DoubleSidedMask", "MaskedImportance", "flag_masked"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskedImportance:
    """sg(kρ·(A − τ·log ρ))·c, k = 1 where low ≤ ρ ≤ high (INTELLECT-3, prime-rl of December 2025).

    ρ is current/behavior: `bypass_ratio`. Dropped tokens stay in the denominator. With τ > 0 tokens without advantage
    have a gradient too: such an objective has `acts_without_advantage`.
    """

    low: float = 0.5
    """The least ratio that is kept; inside."""
    high: float = 5.0
    """The largest ratio that is kept; inside."""
    kl_tau: float = 0.0
    """τ, reward per nat: pulls the token back to the policy that sampled it."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1, and a pull in the wrong direction."""
        check_band("masked importance", self.low, self.high)
        if not self.kl_tau >= 0.0:
            raise ObjectiveError(f"masked importance has kl_tau = {self.kl_tau}; it is at least 0.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Weigh each token's log-probability by its ratio, inside the band.

        Args:
            ratio: (T,) current over behavior; its gradient is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flags token mask, and the side, where dropped.
        """
        is_high, is_low = ratio > self.high, ratio < self.low
        held = ratio.detach()
        pushed = held * (streams.advantages - self.kl_tau * held.log())
        coefficients = torch.where(is_high | is_low, 0.0, pushed)
        return weigh_logprobs(coefficients, flag_masked(is_low, is_high), streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubleSidedMask:
    """ρA where 1 − below < ρ < 1 + above, strictly and for either sign of A; else 0 (SAO, GLM-5).

    ρ is current/behavior: `bypass_ratio`. Dropped tokens stay in the denominator.
    """

    below: float = 0.3
    """Distance of the lower bound from 1, in (0, 1]."""
    above: float = 5.0
    """Distance of the upper bound from 1, above 0."""

    def __post_init__(self) -> None:
        """Refuse distances that would drop an unchanged policy."""
        if not (0.0 < self.below <= 1.0 and self.above > 0.0):
            raise ObjectiveError(
                f"the double-sided mask has below = {self.below} and above = {self.above}; they are distances from 1, "
                "below in (0, 1] and above over 0, such as 0.3 and 5."
            )

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Drop each token whose ratio is not strictly inside.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,). Non-finite tokens are rejected there.

        Returns:
            (T,) to be maximised; flags token mask, and the side, where dropped.
        """
        is_high, is_low = ratio >= 1.0 + self.above, ratio <= 1.0 - self.below
        return Surrogate(
            per_token=torch.where(is_high | is_low, 0.0, ratio) * streams.advantages,
            flags=flag_masked(is_low, is_high),
        )


def flag_masked(is_low: Tensor, is_high: Tensor) -> Tensor:
    """(T,) int32: token mask, with clipped low or clipped high for the side on which the token left the band."""
    return raise_flag(is_low, TOKEN_MASK | CLIPPED_LOW) | raise_flag(is_high, TOKEN_MASK | CLIPPED_HIGH)
