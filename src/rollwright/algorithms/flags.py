"""Bits that say what happened to a token; the same bits that a receipt stores."""

from typing import Final

import torch
from torch import Tensor

__all__ = [
    "CLIPPED_HIGH",
    "CLIPPED_LOW",
    "DUAL_CLIP",
    "NON_FINITE",
    "OUTER_CLIP",
    "OUTSIDE_SUPPORT",
    "SELECTED",
    "SEQUENCE_MASK",
    "STALE",
    "TOKEN_MASK",
    "TRUNCATION_MASK",
    "ZERO_ADVANTAGE",
    "has_flag",
    "raise_flag",
]

CLIPPED_HIGH: Final = 1 << 0
CLIPPED_LOW: Final = 1 << 1
DUAL_CLIP: Final = 1 << 2
TOKEN_MASK: Final = 1 << 3
SEQUENCE_MASK: Final = 1 << 4
STALE: Final = 1 << 5
NON_FINITE: Final = 1 << 6
OUTSIDE_SUPPORT: Final = 1 << 7
TRUNCATION_MASK: Final = 1 << 8
ZERO_ADVANTAGE: Final = 1 << 9
OUTER_CLIP: Final = 1 << 10
SELECTED: Final = 1 << 11


def raise_flag(where: Tensor, bit: int) -> Tensor:
    """The bit where `where` is True, else 0.

    Args:
        where: (T,) bool.
        bit: one of this module's bits.

    Returns:
        (T,) int32; flags join by `|`.
    """
    return where.to(torch.int32) * bit


def has_flag(flags: Tensor, bit: int) -> Tensor:
    """(T,) bool, True where (T,) int32 `flags` carry the bit."""
    return (flags & bit) != 0
