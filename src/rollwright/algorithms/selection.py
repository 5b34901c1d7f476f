"""Which tokens of an update were chosen by a stage: how many, and where a surrogate reads them."""

from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.stages import made_by

__all__ = ["made_selection", "number_selected"]


def number_selected(mask: Tensor, share: float) -> int:
    """⌊share·N⌋ of the N tokens of (T,) bool `mask`, at least one where there is any."""
    if not 0.0 < share <= 1.0:
        raise ObjectiveError(f"the share of chosen tokens is {share}; it is in (0, 1].")
    count = int(mask.sum())
    return min(count, max(1, int(share * count)))


def made_selection(streams: TokenStreams, name: str) -> Tensor:
    """(T,) bool that the update stage of this name made; refuses a piece without it."""
    return streams.action_mask & (made_by(streams, name) != 0)
