"""Rows that a credit withheld, as wrappers must leave them: no further advantage, and their reason stays."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.groups import ZERO_CONTRAST, broadcast_to_tokens, rows_where
from rollwright.algorithms.objective import Credit
from rollwright.algorithms.rows import row_sum

__all__ = ["is_withheld", "with_advantages"]


def is_withheld(credit: Credit, num_rows: int) -> Tensor:
    """(R,) bool, rows that a rule took out: unscored, truncated. Rows without contrast are not."""
    withheld = torch.zeros(num_rows, dtype=torch.bool)
    withheld[[row for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST]] = True
    return withheld


def with_advantages(credit: Credit, advantages: Tensor, row_offsets: Tensor) -> Credit:
    """The credit with other advantages: 0 in withheld rows, and a row that now has some is trained.

    Args:
        credit: what came before.
        advantages: (N,) float64 of all tokens.
        row_offsets: (R + 1,) int64 into them.

    Returns:
        The credit; value targets stay.
    """
    num_rows = len(row_offsets) - 1
    withheld = broadcast_to_tokens(is_withheld(credit, num_rows), row_offsets)
    kept = torch.where(withheld, 0.0, advantages)
    has_signal = set(rows_where(row_sum((kept != 0).to(torch.float64), row_offsets) > 0))
    untrained = {
        row: reason for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST or row not in has_signal
    }
    return replace(credit, advantages=kept, untrained=untrained)
