"""Truncated importance weights (M39)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.ratios.token_ratios import Corrected, clamped_exp, log_correction
from rollwright.algorithms.rows import row_sum, spread_rows

__all__ = ["TruncatedRatio"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedRatio:
    """The correction min(ρ, cap), ρ of the learner's policy over the engine's: every token stays, none weighs more.

    Caps in public code: 2 for tokens (verl), 1.5 to 5 for tokens and 2 to 10 for sequences elsewhere. The lower side is
    not truncated. A token weight has little variance and a bias; a row's product is the exact weight, and noisy.
    """

    cap: float = 2.0
    """Of the ratio itself, above 0."""
    level: Literal["token", "sequence"] = "token"
    """sequence: the product over the row's action tokens, the same weight for each of them."""
    of: Corrected = "proximal"
    """What is divided by behavior; current in bypass mode, detached."""

    def __post_init__(self) -> None:
        """Refuse a cap that leaves nothing."""
        if not 0.0 < self.cap < float("inf"):
            raise ObjectiveError(
                f"the cap of a truncated ratio is {self.cap}; it is a finite bound of the ratio itself, above 0, such "
                "as 2."
            )
        if self.level not in ("token", "sequence"):
            raise ObjectiveError(f"the level of a truncated ratio is {self.level!r}; it is 'token' or 'sequence'.")

    def __call__(self, streams: TokenStreams) -> Tensor:
        """Weigh each action token.

        Args:
            streams: cleaned.

        Returns:
            (T,) detached, in (0, cap]; 0 at masked tokens.
        """
        weight = self._ratio(streams).clamp(max=self.cap)
        return torch.where(streams.action_mask, weight, 0.0)

    def truncated(self, streams: TokenStreams) -> Tensor:
        """Which tokens the cap holds down.

        Args:
            streams: cleaned.

        Returns:
            (T,) bool, True where the ratio lies strictly above the cap; False at masked tokens.
        """
        return streams.action_mask & (self._ratio(streams) > self.cap)

    def _ratio(self, streams: TokenStreams) -> Tensor:
        log_ratio = log_correction(streams, self.of)
        if self.level == "token":
            return clamped_exp(log_ratio)
        total = row_sum(torch.where(streams.action_mask, log_ratio.to(torch.float64), 0.0), streams.row_offsets)
        return spread_rows(clamped_exp(total).to(log_ratio.dtype), streams.row_offsets)
