"""PPO clip, symmetric and asymmetric (M49, M50)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import Bound, check_band

__all__ = ["Clip", "clip_ratio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The surrogate min(ρA, clip(ρ)·A): stop pushing a token that has gone far enough its own way (arXiv:1707.06347).

    It does not hold ratios in the band: on the adverse side the gradient stays. Clip-higher (DAPO) is a `high` that is
    farther from 1 than `low`.
    """

    low: float = 0.8
    """Lower bound of the ratio itself: 0.8, not 0.2. A ratio on a bound is inside."""
    high: Bound = 1.2
    """Upper bound of the ratio itself; a controller is read at each call."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1, the ratio of an unchanged policy."""
        check_band("the clip", self.low, self.high)

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the ratio as they are now."""
        return self.low, coefficient_of(self.high)

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each token by the sign of its advantage.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised, gradient 0 where clipped; flags clipped high and clipped low say where.
        """
        low, high = self.band
        return clip_ratio(ratio, streams.advantages, low, high)


def clip_ratio(ratio: Tensor, advantages: Tensor, low: float | Tensor, high: float | Tensor) -> Surrogate:
    """min(ρA, clip(ρ)·A) of each token.

    Args:
        ratio: (T,) with the gradient of current.
        advantages: (T,) detached.
        low: lower bound of the ratio; a number, or (T,) one a token.
        high: upper bound, in the same form.

    Returns:
        (T,) to be maximised, gradient 0 where clipped, with its flags; a ratio on a bound is inside.
    """
    is_high = (advantages > 0) & (ratio > high)
    is_low = (advantages < 0) & (ratio < low)
    used = torch.where(is_high, high, torch.where(is_low, low, ratio))
    return Surrogate(
        per_token=used * advantages,
        flags=raise_flag(is_high, CLIPPED_HIGH) | raise_flag(is_low, CLIPPED_LOW),
    )
