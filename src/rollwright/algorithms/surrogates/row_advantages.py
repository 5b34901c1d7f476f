"""One advantage a row, for surrogates of whole rows."""

from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.rows import row_max, row_mean, row_min, spread_rows

__all__ = ["RowAdvantage", "advantages_of_rows", "spread_advantages"]

RowAdvantage = Literal["row", "mean_over_row"]
"""`row`: advantages that differ within a row are refused. `mean_over_row`: they are averaged, as AReaL does."""


def advantages_of_rows(streams: TokenStreams, taken: RowAdvantage) -> Tensor:
    """(rows,) the advantage of each row's action tokens; 0 for a row without any.

    Args:
        streams: cleaned; advantages (T,).
        taken: what becomes of advantages that differ within a row.

    Returns:
        (rows,) of the advantages' dtype. A segment that branches share has the mean of their advantages, so its row
        differs within itself too.
    """
    mask, offsets = streams.action_mask, streams.row_offsets
    highest = row_max(streams.advantages, mask, offsets)
    if taken == "mean_over_row":
        return row_mean(streams.advantages, mask, offsets)
    lowest = row_min(streams.advantages, mask, offsets)
    if bool((highest > lowest).any()):
        row = int((highest > lowest).nonzero()[0])
        raise ObjectiveError(
            f"the surrogate takes one advantage a row, but row {row} of the piece has advantages from "
            f"{float(lowest[row])} to {float(highest[row])}. Take credit that gives a row one advantage, average it "
            'with advantage="mean_over_row", or take a surrogate of tokens.'
        )
    return torch.where(highest.isfinite(), highest, 0.0)


def spread_advantages(streams: TokenStreams, taken: RowAdvantage) -> Tensor:
    """(T,) each row's one advantage, at its action tokens; 0 elsewhere."""
    spread = spread_rows(advantages_of_rows(streams, taken), streams.row_offsets)
    return torch.where(streams.action_mask, spread, 0.0)
