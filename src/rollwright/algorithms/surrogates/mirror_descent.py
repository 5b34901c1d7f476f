"""Regression of a row's log-ratio on its advantage: policy mirror descent of Kimi k1.5 (M70)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.rows import row_sum, spread_rows
from rollwright.algorithms.surrogates.row_advantages import RowAdvantage, spread_advantages

__all__ = ["MirrorDescent"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorDescent:
    """−(A − τ·Σ(c − o))² a row: the optimum of reward less τ·KL to the policy before the update (arXiv:2501.12599).

    Its gradient is 2τ·(A − τS)·∇S, not 0 where A = 0 once the policy has moved: such an objective has
    `acts_without_advantage`. With the response mean each row counts once.
    """

    tau: float | None = None
    """τ, reward per nat. Not disclosed."""
    advantage: RowAdvantage = "row"

    def __post_init__(self) -> None:
        """Refuse a strength that was left out or pulls nowhere."""
        if not self._tau() > 0.0:
            raise ObjectiveError(f"mirror descent has tau = {self.tau}; it is above 0.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Give each token its row's squared error.

        Args:
            ratio: (T,) not read: the sum of a row's log-ratios needs no exponential and no clamp.
            streams: cleaned; advantages, current and proximal log-probabilities (T,).

        Returns:
            (T,) the row's value at each of its tokens, to be maximised, without flags.
        """
        del ratio
        log_ratio = stream_of(streams, "current") - stream_of(streams, "proximal")
        inside = torch.where(streams.action_mask, log_ratio, 0.0)
        moved = spread_rows(row_sum(inside, streams.row_offsets), streams.row_offsets)
        error = spread_advantages(streams, self.advantage) - self._tau() * moved
        per_token = torch.where(streams.action_mask, -error.square(), 0.0)
        return Surrogate(per_token=per_token, flags=torch.zeros_like(per_token, dtype=torch.int32))

    def _tau(self) -> float:
        return chosen("tau", self.tau, undisclosed_by="Kimi k1.5")
