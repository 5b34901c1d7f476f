"""Attention over a cache in blocks, in two ways: one query a row, and several.

Keys lie turned, a block being (head size, 64 positions), values straight, (64 positions, head size). So for one query a
row both products are sums of lines with weights: the scores of a block are its head-size lines weighted by the query,
and the mixed value is the lines of values weighted by the shares. `torch.embedding_bag` adds lines so, each sum in the
order of its lines, whatever other sums there are: it reads the blocks that are live, at the speed of memory, where a
batched product with two rows a matrix takes three times as long. Blocks that siblings share are read from where the
first of them left them in the processor's own memory.

Several queries a row gather the blocks of each row, and are two batched products, the second of them in blocks of 64
keys from position 0, in order.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.engines.embedded.blocks import BLOCK
from rollwright.engines.embedded.layer_cache import LayerCache, Lines
from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["Spread", "attend_many", "block_mask", "lines_of", "spread_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Spread:
    """What several queries a row read."""

    keys: Tensor
    """(rows * kv heads * head size * blocks,) lines of turned keys."""
    values: Tensor
    """(rows * kv heads * blocks,) blocks of values, by head."""
    spread: Tensor
    """(tokens without padding,) where each stands among rows * width."""
    width: int
    """Queries a row."""
    num_blocks: int


def lines_of(tables: NDArray[np.int64], sizes: NDArray[np.int64], shape: DenseShape, num_rows: int) -> Lines:
    """Lay out what a step reads.

    Args:
        tables: (rows, blocks) of the cache, at least as wide as the longest row.
        sizes: (rows,) live blocks of each.
        shape: of the model.
        num_rows: with those that only pad.

    Returns:
        On the CPU, where this way is taken.
    """
    widest = int(sizes.max())
    rows, heads, group = len(sizes), shape.num_heads, shape.num_queries_per_kv
    kv_heads = np.repeat(np.arange(shape.num_kv_heads), group)
    pages = tables[:, None, :widest] * shape.num_kv_heads + kv_heads[None, :, None]
    is_live = np.arange(widest) < sizes[:, None]
    live: NDArray[np.intp] | None = None
    counts = np.repeat(is_live[:, None], heads, axis=1).reshape(-1)
    if is_live.all():
        pages = pages.reshape(-1)
    else:
        live = np.flatnonzero(counts)
        pages = pages.reshape(-1)[live]
    asked = np.arange(rows)[:, None] * (shape.num_rotated + shape.num_kv_heads) + np.arange(heads)
    read = np.zeros(num_rows, dtype=np.int64)
    read[:rows] = sizes
    return Lines(
        keys=_spans(pages, shape.head_size),
        key_ends=_ends(counts, shape.head_size),
        values=_spans(pages, BLOCK),
        value_ends=_ends(np.repeat(read, heads), BLOCK),
        query_of=torch.from_numpy(asked.reshape(-1).repeat(np.repeat(sizes, heads))),
        live=None if live is None else torch.from_numpy(live),
    )


def spread_of(
    tables: NDArray[np.int64], spread: NDArray[np.intp], width: int, shape: DenseShape, device: torch.device
) -> Spread:
    """Lay out what several queries a row read.

    Args:
        tables: (rows, blocks) of the cache; a row that has fewer is filled up with the empty block.
        spread: (tokens,) where each stands among rows * width.
        width: queries a row.
        shape: of the model.
        device: where the cache is.
    """
    pages = tables[:, None, :] * shape.num_kv_heads + np.arange(shape.num_kv_heads)[None, :, None]
    lines = pages[:, :, None, :] * shape.head_size + np.arange(shape.head_size)[:, None]
    return Spread(
        keys=torch.from_numpy(lines.reshape(-1)).to(device),
        values=torch.from_numpy(pages.reshape(-1)).to(device),
        spread=torch.from_numpy(spread).to(device),
        width=width,
        num_blocks=tables.shape[1],
    )


def attend_many(queries: Tensor, cache: LayerCache, mask: Tensor, near: Spread, shape: DenseShape) -> Tensor:
    """Several queries a row, packed row behind row.

    Args:
        queries: (padded tokens, heads, head size).
        cache: of one layer.
        mask: (rows, 1, width, blocks * 64), 0 or −inf.
        near: of these rows.
        shape: of the model.

    Returns:
        (padded tokens, heads * head size)
    """
    rows, heads, group, size = len(mask), shape.num_kv_heads, shape.num_queries_per_kv, shape.head_size
    num_keys = near.num_blocks * BLOCK
    spread = queries.new_zeros(rows * near.width, shape.num_heads, size)
    spread.index_copy_(0, near.spread, queries[: len(near.spread)])
    asked = spread.view(rows, near.width, heads, group, size).permute(0, 2, 3, 1, 4)
    asked = asked.reshape(rows * heads, group * near.width, size)
    keys = cache.key_lines.index_select(0, near.keys).view(rows * heads, size, num_keys)
    scores = torch.bmm(asked, keys).view(rows, shape.num_heads, near.width, num_keys).add_(mask)
    shares = torch.softmax(scores, dim=-1).view(rows * heads, group * near.width, num_keys)
    values = cache.value_lines.view(-1, BLOCK * size).index_select(0, near.values).view(rows * heads, num_keys, size)
    mixed = torch.bmm(shares[..., :BLOCK], values[:, :BLOCK])
    for low in range(BLOCK, num_keys, BLOCK):
        mixed += torch.bmm(shares[..., low : low + BLOCK], values[:, low : low + BLOCK])
    mixed = mixed.view(rows, heads, group, near.width, size).permute(0, 3, 1, 2, 4).reshape(rows * near.width, -1)
    packed = mixed.new_zeros(len(queries), mixed.shape[1])
    packed[: len(near.spread)] = mixed.index_select(0, near.spread)
    return packed


def block_mask(last: Tensor, num_blocks: int) -> Tensor:
    """0 for positions up to the last that a query sees, −inf behind; (…, blocks * 64) for `last` of (…)."""
    keys = torch.arange(num_blocks * BLOCK, device=last.device)
    return torch.where(keys <= last[..., None], 0.0, -torch.inf)


def _spans(pages: NDArray[np.int64], size: int) -> Tensor:
    """The lines of these pages of `size` lines, in order."""
    return torch.from_numpy((pages[:, None] * size + np.arange(size)).reshape(-1))


def _ends(counts: NDArray[np.integer] | NDArray[np.bool_], size: int) -> Tensor:
    ends = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=ends[1:])
    return torch.from_numpy(ends * size)
