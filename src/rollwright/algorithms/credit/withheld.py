"""Rows that a credit withheld, as wrappers must leave them: no further advantage, and their reason stays."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import ZERO_CONTRAST, broadcast_to_tokens, rows_where
from rollwright.algorithms.objective import Credit
from rollwright.algorithms.rows import row_count

__all__ = ["is_withheld", "lacks_contrast", "with_advantages"]


def is_withheld(credit: Credit, num_rows: int) -> Tensor:
    """(R,) bool, rows that a rule took out: unscored, truncated. Rows without contrast are not."""
    return _marked([row for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST], num_rows)


def lacks_contrast(credit: Credit, num_rows: int) -> Tensor:
    """(R,) bool, rows that have nothing to be compared with: they stay in the denominators."""
    return _marked([row for row, reason in credit.untrained.items() if reason == ZERO_CONTRAST], num_rows)


def with_advantages(credit: Credit, advantages: Tensor, row_offsets: Tensor) -> Credit:
    """The credit with other advantages: 0 in withheld rows, and a row that now has some is trained.

    Args:
        credit: what came before.
        advantages: (N,) float64 of all tokens.
        row_offsets: (R + 1,) int64 into them.

    Returns:
        The credit; value targets stay.
    """
    withheld = is_withheld(credit, len(row_offsets) - 1)
    kept = advantages
    if bool(withheld.any()):
        kept = torch.where(broadcast_to_tokens(withheld, row_offsets), 0.0, advantages)
    has_signal = set(rows_where(row_count(kept != 0, row_offsets) > 0))
    untrained = {
        row: reason for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST or row not in has_signal
    }
    return replace(credit, advantages=kept, untrained=untrained)


def _marked(rows: list[int], num_rows: int) -> Tensor:
    marked = torch.zeros(num_rows, dtype=torch.bool)
    marked[rows] = True
    return marked
