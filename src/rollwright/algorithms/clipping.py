"""PPO clip, symmetric and asymmetric (M49, M50)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams

__all__ = ["Clip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """The surrogate min(ρA, clip(ρ)·A): stop pushing a token that has gone far enough its own way (arXiv:1707.06347).

    It does not hold ratios in the band: on the adverse side the gradient stays. Clip-higher (DAPO) is a `high` that is
    farther from 1 than `low`.
    """

    low: float = 0.8
    """Lower bound of the ratio itself: 0.8, not 0.2. A ratio on a bound is inside."""
    high: float = 1.2
    """Upper bound of the ratio itself."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1, the ratio of an unchanged policy."""
        if not 0.0 <= self.low <= 1.0 <= self.high:
            raise ObjectiveError(
                f"the clip bounds are [{self.low}, {self.high}]; they are bounds of the ratio itself and hold 1, "
                "such as [0.8, 1.2]."
            )

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each token by the sign of its advantage.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised, gradient 0 where clipped; flags clipped high and clipped low say where.
        """
        is_high = (streams.advantages > 0) & (ratio > self.high)
        is_low = (streams.advantages < 0) & (ratio < self.low)
        used = torch.where(is_high, self.high, torch.where(is_low, self.low, ratio))
        return Surrogate(
            per_token=used * streams.advantages,
            flags=raise_flag(is_high, CLIPPED_HIGH) | raise_flag(is_low, CLIPPED_LOW),
        )
