"""Attention over a trie of rows: a shared beginning is attended to by one long run of queries, not once for each row.

Each tile of `PackedRows` is one call of the fused kernel, on views but for what trunks take along. Where a query stands
in several tiles, their parts are merged by the logarithms of their sums; given the merged output and sum, the kernel's
backward makes the exact gradient of each part. Parts are merged in float32 (float64 where the products are), and every
sum has one order.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from rollwright.learner.trie import PackedRows, Tile, tree_mask

__all__ = ["flex_tree_attention", "tree_attention"]

LEAST_HEAD = 16
"""Numbers of a head that FlexAttention's kernels take at least."""

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


def tree_attention(query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scaling: float) -> Tensor:
    """Each distinct token attends to itself and to what stands before it in its row; differentiable.

    Args:
        query: (u, H, d), rotated, in the order of `rows.distinct`.
        key: (u, K, d), rotated; K divides H.
        value: (u, K, d), of the same type as the others.
        rows: who sees whom.
        scaling: of the scores.

    Returns:
        (u, H, d).
    """
    if query.device.type == "cpu":
        return _TreeAttention.apply(query, key, value, rows, scaling)
    return flex_tree_attention(query, key, value, rows, scaling)


def flex_tree_attention(query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scaling: float) -> Tensor:
    """`tree_attention` by FlexAttention: compiled on a GPU; elsewhere without its blocks, and forward alone.

    Args:
        query: (u, H, d), rotated, in the order of `rows.distinct`.
        key: (u, K, d), rotated; K divides H.
        value: (u, K, d), of the same type as the others.
        rows: who sees whom.
        scaling: of the scores.

    Returns:
        (u, H, d).
    """
    attend = _compiled_flex() if query.is_cuda else flex_attention
    size = query.shape[-1]
    q, k, v = (_wide_enough(one).transpose(0, 1).unsqueeze(0) for one in (query, key, value))
    mask = tree_mask(rows.ends) if rows.flex_mask is None else rows.flex_mask
    found = attend(q, k, v, block_mask=mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    assert isinstance(found, Tensor)
    return found[0].transpose(0, 1)[..., :size]


def _wide_enough(heads: Tensor) -> Tensor:
    """Heads filled up with zeros, which change no score, to the least size that its kernels multiply."""
    missing = LEAST_HEAD - heads.shape[-1]
    return torch.nn.functional.pad(heads, (0, missing)) if missing > 0 else heads


@cache
def _compiled_flex() -> Any:  # noqa: ANN401 - torch's overloads do not survive compilation
    """One compilation for all lengths."""
    return torch.compile(flex_attention, dynamic=True)


class _TreeAttention(torch.autograd.Function):
    """`tree_attention` on a CPU, for states whose last dimension is contiguous."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: PackedRows,
        scaling: float,
    ) -> Tensor:
        wide = torch.promote_types(query.dtype, torch.float32)
        total = query.new_empty(query.shape, dtype=wide if rows.trunks else query.dtype)
        log_sums = query.new_empty(query.shape[:2], dtype=wide)
        for number, tile in enumerate((*rows.blocks, *rows.trunks)):
            q, k, v = _heads(query, tile.queries, tile), _heads(key, tile.keys, tile), _heads(value, tile.keys, tile)
            part, part_sums = _forward(q, k, v, 0.0, tile.is_causal, attn_mask=_mask(tile, wide), scale=scaling)
            so_far, sums = _heads(total, tile.queries, tile), _heads(log_sums, tile.queries, tile)
            if number < len(rows.blocks):
                so_far.copy_(part)
                sums.copy_(part_sums)
            else:
                so_far.lerp_(part.to(wide), torch.sigmoid(part_sums - sums).unsqueeze(-1))
                torch.logaddexp(sums, part_sums, out=sums)
        out = total.to(query.dtype)
        ctx.save_for_backward(query, key, value, out, log_sums)
        ctx.rows, ctx.scaling = rows, scaling
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        query, key, value, out, log_sums = ctx.saved_tensors
        rows: PackedRows = ctx.rows
        wide = log_sums.dtype
        totals = [one.new_empty(one.shape, dtype=wide if rows.trunks else one.dtype) for one in (query, key, value)]
        for number, tile in enumerate((*rows.blocks, *rows.trunks)):
            due, q, o, sums = (_heads(one, tile.queries, tile) for one in (grads[0], query, out, log_sums))
            k, v = _heads(key, tile.keys, tile), _heads(value, tile.keys, tile)
            mask = _mask(tile, wide)
            parts = _backward(due, q, k, v, o, sums, 0.0, tile.is_causal, attn_mask=mask, scale=ctx.scaling)
            if number < len(rows.blocks):
                for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
                    _heads(total, where, tile).copy_(part)
            else:
                _add(totals, parts, tile)
        of_query, of_key, of_value = (total.to(query.dtype) for total in totals)
        return of_query, of_key, of_value, None, None


def _heads(states: Tensor, where: slice | Tensor, tile: Tile) -> Tensor:
    """(n, H, …) as (repeats, H, n / repeats, …): a view of a range, a copy of numbered ones. K heads serve H."""
    if isinstance(where, Tensor):
        return states.index_select(0, where).transpose(0, 1).unsqueeze(0)
    count = (where.stop - where.start) // tile.repeats
    step, head, *inner = states.stride()
    shape = (tile.repeats, states.shape[1], count, *states.shape[2:])
    return states.as_strided(shape, (count * step, head, step, *inner), states.storage_offset() + where.start * step)


def _add(totals: Sequence[Tensor], parts: Sequence[Tensor], tile: Tile) -> None:
    """A trunk's part in the gradients of its queries, keys and values."""
    for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
        if isinstance(where, Tensor):
            total.index_add_(0, where, part[0].transpose(0, 1).to(total.dtype))
        else:
            _heads(total, where, tile).add_(part)


def _mask(tile: Tile, dtype: torch.dtype) -> Tensor | None:
    """In the type that the kernel adds scores in, which it does not check."""
    return None if tile.mask is None else tile.mask.to(dtype)
