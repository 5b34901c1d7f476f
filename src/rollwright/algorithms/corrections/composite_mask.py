"""Tests of tokens and of whole rows together (M41: prime-rl, December 2025)."""

from dataclasses import dataclass

import torch

from rollwright.algorithms.corrections.masked_ratio import is_within, refuse_bad_band
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import SEQUENCE_MASK, TOKEN_MASK, raise_flag
from rollwright.algorithms.objective import Keep, TokenStreams
from rollwright.algorithms.ratios.token_ratios import Corrected, log_correction
from rollwright.algorithms.rows import row_mean, row_sum, spread_rows

__all__ = ["CompositeMask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeMask:
    """Keep a token in its own band, in a row whose geometric mean and extremes are in theirs.

    A row test drops the whole row, and looks at every action token of it, those that the token test drops too. The cap
    10 on the row's weight in the same code is `TruncatedRatio(cap=10, level="sequence")`.
    """

    token: tuple[float, float] = (0.125, 8.0)
    """Band of ρ, inclusive."""
    row_mean: tuple[float, float] = (0.1, 10.0)
    """Band of the row's geometric mean of ρ, inclusive."""
    row_min: float = 0.0
    """A row with a ρ below it goes; 0 is off."""
    row_max: float = 100.0
    """A row with a ρ above it goes; infinity is off."""
    of: Corrected = "proximal"
    """What is divided by behavior. `current` is known only in the update: no denominator can count what it keeps."""

    def __post_init__(self) -> None:
        """Refuse bands that do not hold 1."""
        for name, band in (
            ("token", self.token),
            ("row_mean", self.row_mean),
            ("row_min and row_max", (self.row_min, self.row_max)),
        ):
            if len(band) != 2:  # noqa: PLR2004 - a band has two ends
                raise ObjectiveError(f"{name} of a composite mask is {band}; give a lower and an upper bound.")
            refuse_bad_band(f"{name} of a composite mask", *band)

    def __call__(self, streams: TokenStreams) -> Keep:
        """Test each action token and each row.

        Args:
            streams: cleaned.

        Returns:
            What stays; the flag of a token mask or of a sequence mask, or both, where an action token goes.
        """
        mask, offsets = streams.action_mask, streams.row_offsets
        log_ratio = log_correction(streams, self.of)
        mean = row_mean(log_ratio.to(torch.float64), mask, offsets)
        is_extreme = mask & ~is_within(log_ratio, self.row_min, self.row_max)
        row_stays = is_within(mean, *self.row_mean) & (row_sum(is_extreme.to(torch.float32), offsets) == 0)
        in_token_band = is_within(log_ratio, *self.token)
        in_row = spread_rows(row_stays, offsets)
        return Keep(
            keep=mask & in_token_band & in_row,
            flags=raise_flag(mask & ~in_token_band, TOKEN_MASK) | raise_flag(mask & ~in_row, SEQUENCE_MASK),
        )
