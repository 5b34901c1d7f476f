"""The geometric mean of clipped token ratios: GMPO (M67)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import CLIPPED_HIGH, CLIPPED_LOW, raise_flag
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.rows import row_mean, spread_rows
from rollwright.algorithms.surrogates.row_advantages import RowAdvantage, spread_advantages

__all__ = ["GeometricMeanClip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GeometricMeanClip:
    """A·exp(mean of x), x the token's log-ratio, clipped on the side of its advantage (GMPO, arXiv:2507.20673).

    Takes a token ratio; the response mean gives each row its one value.
    """

    log_clip: float = 0.4
    """Bound of a token's log-ratio on either side of 0, nats."""
    log_clip_low: float | None = None
    """Distance of the lower bound alone, where it is another one, nats."""
    advantage: RowAdvantage = "row"

    def __post_init__(self) -> None:
        """Refuse bounds that do not hold 0, the log-ratio of an unchanged policy."""
        if not (self.log_clip >= 0.0 and self._below >= 0.0):
            raise ObjectiveError(
                f"the geometric clip has log_clip = {self.log_clip} and log_clip_low = {self.log_clip_low}; they are "
                "distances in nats, at least 0, such as 0.4."
            )

    def clipped_log_ratios(self, ratio: Tensor, advantages: Tensor) -> Surrogate:
        """The log-ratio that each token brings to its row.

        Args:
            ratio: (T,) of tokens, with the gradient of current.
            advantages: (T,) of their rows.

        Returns:
            (T,) nats, gradient 0 where clipped, and the flags clipped high and low.
        """
        log_ratio = ratio.log()
        is_high = (advantages > 0) & (log_ratio > self.log_clip)
        is_low = (advantages < 0) & (log_ratio < -self._below)
        used = torch.where(is_high, self.log_clip, torch.where(is_low, -self._below, log_ratio))
        return Surrogate(per_token=used, flags=raise_flag(is_high, CLIPPED_HIGH) | raise_flag(is_low, CLIPPED_LOW))

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Give each token its row's clipped geometric mean.

        Args:
            ratio: (T,) of tokens, with the gradient of current.
            streams: cleaned; advantages (T,), one a row.

        Returns:
            (T,) the row's value at each of its tokens, to be maximised; flags of the tokens that were clipped.
        """
        advantages = spread_advantages(streams, self.advantage)
        brought = self.clipped_log_ratios(ratio, advantages)
        means = row_mean(brought.per_token, streams.action_mask, streams.row_offsets)
        return Surrogate(
            per_token=spread_rows(means.exp(), streams.row_offsets) * advantages,
            flags=brought.flags,
        )

    @property
    def _below(self) -> float:
        return self.log_clip if self.log_clip_low is None else self.log_clip_low
