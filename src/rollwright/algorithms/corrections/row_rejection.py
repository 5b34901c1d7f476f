"""Whole rows left out because their policies lie too far apart (M42)."""

from dataclasses import dataclass
from typing import Literal, assert_never

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SEQUENCE_MASK, raise_flag
from rollwright.algorithms.objective import Keep, TokenStreams
from rollwright.algorithms.ratios.token_ratios import LOG_RATIO_BOUND, Corrected, log_correction
from rollwright.algorithms.rows import row_max, row_mean, row_min, spread_rows

__all__ = ["RowRejection", "RowStatistic"]

RowStatistic = Literal["geometric_mean", "k2_mean", "k3_mean", "k2_max", "minimum"]
"""Over a row's action tokens: exp of the mean log ρ; mean and largest (log ρ)²/2; mean ρ − 1 − log ρ; smallest ρ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRejection:
    """Keep a row where low ≤ statistic ≤ high, ρ of the learner's policy over the engine's.

    Opposite drifts cancel in the geometric mean and not in k3. verl's k1 tests put their bounds on 1/ρ: for the same
    rows give low = 1/theirs and high = 1/theirs.
    """

    statistic: RowStatistic
    low: float | None = None
    """Inclusive; of the geometric mean (typically 0.999) and of the smallest ρ (the veto). None: no bound."""
    high: float | None = None
    """Inclusive; of the geometric mean (typically 1.001), of k2 and of k3 (0.001 to 0.01). None: no bound."""
    of: Corrected = "proximal"
    """What is divided by behavior. `current` is known only in the update: no denominator can count what it keeps."""

    def __post_init__(self) -> None:
        """Refuse a test that keeps everything, or drops rows of equal policies."""
        equal = 1.0 if self.statistic in ("geometric_mean", "minimum") else 0.0
        if self.low is None and self.high is None:
            raise ObjectiveError(f"a rejection of rows by {self.statistic} has neither low nor high; give a bound.")
        if (self.low is not None and not self.low <= equal) or (self.high is not None and not equal <= self.high):
            raise ObjectiveError(
                f"a rejection of rows by {self.statistic} has low={self.low} and high={self.high}, which drops rows of "
                f"equal policies: their {self.statistic} is {equal}, and the bounds hold it."
            )

    def __call__(self, streams: TokenStreams) -> Keep:
        """Test each row.

        Args:
            streams: cleaned.

        Returns:
            What stays; the flag of a sequence mask on every action token of a row that goes.
        """
        value = self.of_rows(streams)
        stays = torch.ones_like(value, dtype=torch.bool)
        if self.low is not None:
            stays = stays & (value >= self.low)
        if self.high is not None:
            stays = stays & (value <= self.high)
        in_row = spread_rows(stays, streams.row_offsets)
        return Keep(keep=streams.action_mask & in_row, flags=raise_flag(streams.action_mask & ~in_row, SEQUENCE_MASK))

    def of_rows(self, streams: TokenStreams) -> Tensor:
        """The statistic of each row.

        Args:
            streams: cleaned.

        Returns:
            (rows,) float64; that of equal policies for a row without action tokens.
        """
        mask, offsets = streams.action_mask, streams.row_offsets
        bound = LOG_RATIO_BOUND
        log_ratio = log_correction(streams, self.of).to(torch.float64).clamp(min=-bound, max=bound)
        match self.statistic:
            case "geometric_mean":
                return row_mean(log_ratio, mask, offsets).exp()
            case "k2_mean":
                return row_mean(log_ratio.square() / 2.0, mask, offsets)
            case "k3_mean":
                return row_mean(torch.expm1(log_ratio) - log_ratio, mask, offsets)
            case "k2_max":
                return row_max(log_ratio.square() / 2.0, mask, offsets).clamp(min=0.0)
            case "minimum":
                return row_min(log_ratio, mask, offsets).exp().nan_to_num(posinf=1.0)
            case _:
                assert_never(self.statistic)
