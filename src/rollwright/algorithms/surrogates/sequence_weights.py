"""Detached weights of a row's whole ratio: TOPR (M59) and VESPO (M66)."""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.ratios.token_ratios import LOG_RATIO_BOUND
from rollwright.algorithms.surrogates.by_sign import choose
from rollwright.algorithms.surrogates.likelihood import weigh_logprobs

__all__ = ["Topr", "Vespo"]

_LEAST_LOG_RATIO: Final = math.log(1e-8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Topr:
    """sg(w)·A·c, w = 1 for A ≥ 0 and min(Πρ, cap) for A < 0: bad rows taper off as they die (arXiv:2503.14286).

    The ratio is `sequence_product_ratio`.
    """

    cap: float = 1.0
    """Largest weight of a bad row, above 0."""

    def __post_init__(self) -> None:
        """Refuse a cap that leaves nothing of bad rows."""
        if not self.cap > 0.0:
            raise ObjectiveError(
                f"TOPR has cap = {self.cap}; it is the largest weight of a bad row, above 0, such as 1."
            )

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Weigh each token's log-probability by its row.

        Args:
            ratio: (T,) the row's product at each token; its gradient is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; flag clipped high where a bad row's weight is held.
        """
        is_bad = streams.advantages < 0
        weights = torch.where(is_bad, ratio.clamp(max=self.cap), 1.0)
        flags = raise_flag(is_bad & (ratio > self.cap), CLIPPED_HIGH)
        return weigh_logprobs(weights * streams.advantages, flags, streams)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vespo:
    """sg(φ(W))·A·c with φ(W) = exp(λ + k·log W − λW): 1 at W = 1 and falling to 0 on both sides (public TRL code).

    W is `sequence_product_ratio`; its logarithm is held in [log 1e-8, 20]. φ is largest at W = k/λ.
    """

    power_positive: float = 2.0
    """k where A ≥ 0."""
    rate_positive: float = 3.0
    """λ where A ≥ 0."""
    power_negative: float = 3.0
    """k where A < 0."""
    rate_negative: float = 2.0
    """λ where A < 0."""

    def __post_init__(self) -> None:
        """Refuse a weight that does not fall."""
        if not min(self.power_positive, self.rate_positive, self.power_negative, self.rate_negative) > 0.0:
            raise ObjectiveError(f"{self} has a number that is not above 0; powers and rates are, such as 2 and 3.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Weigh each token's log-probability by its row.

        Args:
            ratio: (T,) the row's product at each token; its gradient is not used.
            streams: cleaned; advantages and current log-probabilities (T,).

        Returns:
            (T,) to be maximised; the weight is smooth, so there are no flags.
        """
        weights = self.weights(ratio, streams.advantages)
        flags = torch.zeros_like(streams.action_mask, dtype=torch.int32)
        return weigh_logprobs(weights * streams.advantages, flags, streams)

    def weights(self, ratio: Tensor, advantages: Tensor) -> Tensor:
        """(T,) φ of (T,) row ratios by the sign of (T,) advantages."""
        is_bad = advantages < 0
        power = choose(is_bad, self.power_negative, self.power_positive, like=ratio.detach())
        rate = choose(is_bad, self.rate_negative, self.rate_positive, like=ratio.detach())
        log_ratio = ratio.detach().log().clamp(min=_LEAST_LOG_RATIO, max=LOG_RATIO_BOUND)
        return torch.exp(rate + power * log_ratio - rate * log_ratio.exp())
