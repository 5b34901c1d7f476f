"""The corrections that change nothing: every token kept, every weight 1."""

import torch
from torch import Tensor

from rollwright.algorithms.objective import Keep, TokenStreams

__all__ = ["keep_all", "no_correction"]


def keep_all(streams: TokenStreams) -> Keep:
    """Keep every action token.

    Args:
        streams: a piece.

    Returns:
        The action mask, without flags.
    """
    return Keep(keep=streams.action_mask, flags=torch.zeros_like(streams.action_mask, dtype=torch.int32))


def no_correction(streams: TokenStreams) -> Tensor:
    """Weight 1 everywhere.

    Args:
        streams: a piece.

    Returns:
        (T,) ones without gradient.
    """
    return torch.ones_like(streams.advantages)
