"""The dual clip: bad tokens with a large ratio have a bounded loss (M51)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import DUAL_CLIP, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.bounds import Bound, check_band
from rollwright.algorithms.surrogates.clipping import clip_ratio

__all__ = ["DualClip", "bound_losses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DualClip:
    """PPO's clip, and for A < 0 never below c·A (arXiv:1912.09729; c = 3 as in verl)."""

    low: float = 0.8
    """Lower bound of the ratio itself."""
    high: Bound = 1.2
    """Upper bound of the ratio itself."""
    dual: float = 3.0
    """c > 1, a ratio: from here on a token of negative advantage has no gradient."""

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 1, and a dual bound that cuts an unchanged policy."""
        check_band("the dual clip", self.low, self.high)
        if not self.dual > 1.0:
            raise ObjectiveError(f"the dual clip has dual = {self.dual}; it is a ratio above 1, such as 3.")

    @property
    def band(self) -> tuple[float, float]:
        """Lower and upper bound of the ratio as they are now."""
        return self.low, coefficient_of(self.high)

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Clip each token by the sign of its advantage, and bound the loss of bad ones.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised, gradient 0 where clipped; flags clipped high, clipped low and dual clip.
        """
        low, high = self.band
        return bound_losses(clip_ratio(ratio, streams.advantages, low, high), ratio, streams.advantages, self.dual)


def bound_losses(clipped: Surrogate, ratio: Tensor, advantages: Tensor, dual: float | Tensor) -> Surrogate:
    """max(J, c·A) where A < 0: positive advantages are never touched.

    Args:
        clipped: what the clip gave.
        ratio: (T,) the same ratio.
        advantages: (T,) detached.
        dual: c, a number or (T,) one a token.

    Returns:
        The same, with gradient 0 and the flag dual clip where A < 0 and ρ > c.
    """
    is_bound = (advantages < 0) & (ratio > dual)
    return replace(
        clipped,
        per_token=torch.where(is_bound, dual * advantages, clipped.per_token),
        flags=clipped.flags | raise_flag(is_bound, DUAL_CLIP),
    )
