"""The keys and values of one layer, in blocks, and where a step writes them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.engines.embedded.blocks import BLOCK, WASTE_BLOCK
from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["LayerCache", "Lines", "Slots", "layer_cache", "slots_of"]


class Slots(NamedTuple):
    """Where new keys and values go, one entry a row; the same in every layer."""

    blocks: Tensor
    offsets: Tensor
    """Positions in the blocks."""


class LayerCache(NamedTuple):
    """Views of one layer's part of the cache, made once: in a step of few rows, making them costs what reading does."""

    key_lines: Tensor
    """(blocks * kv heads * head size, 64): keys lie turned."""
    value_lines: Tensor
    """(blocks * kv heads * 64, head size)"""
    key_slots: Tensor
    """(blocks, 64, kv heads, head size), the same memory as the lines."""
    value_slots: Tensor


class Lines(NamedTuple):
    """What one query a row reads, for all layers of a step and for later steps until a row enters a block."""

    keys: Tensor
    """(live * head size,) lines of turned keys; live is (row, query head, block), in this order."""
    key_ends: Tensor
    """(rows * heads * blocks + 1,) where the lines of each score block begin; a block that is not live has none."""
    values: Tensor
    """(live * 64,) lines of values."""
    value_ends: Tensor
    """(padded rows * heads + 1,) where the lines of each row and head begin; a row that only pads has none."""
    query_of: Tensor
    """(live,) which of the rows * (heads + 2 kv heads) queries, keys and values."""
    live: Tensor | None
    """(live,) which of the rows * heads * blocks; None where all are."""


def layer_cache(cache: Tensor, shape: DenseShape) -> LayerCache:
    """The views of one layer.

    Args:
        cache: (keys or values, blocks, kv heads, head size * 64).
        shape: of the model.
    """
    keys, values = cache
    sizes = (len(keys), shape.num_kv_heads)
    return LayerCache(
        key_lines=keys.view(-1, BLOCK),
        value_lines=values.view(-1, shape.head_size),
        key_slots=keys.view(*sizes, shape.head_size, BLOCK).permute(0, 3, 1, 2),
        value_slots=values.view(*sizes, BLOCK, shape.head_size).permute(0, 2, 1, 3),
    )


def slots_of(blocks: NDArray[np.int64], positions: NDArray[np.int64], size: int, device: torch.device) -> Slots:
    """Where the tokens of rows go, at their positions; what only pads, up to `size` rows, goes to waste."""
    padded = np.full(size, WASTE_BLOCK, dtype=np.int64)
    offsets = np.zeros(size, dtype=np.int64)
    padded[: len(blocks)] = blocks
    offsets[: len(blocks)] = positions % BLOCK
    return Slots(blocks=torch.from_numpy(padded).to(device), offsets=torch.from_numpy(offsets).to(device))
