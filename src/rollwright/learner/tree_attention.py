"""Attention over a trie of rows: a shared beginning is attended to by one long run of queries, not once for each row.

Each tile of `PackedRows` is one call of the fused kernel on views. Where a query stands in several tiles, their parts
are merged by the logarithms of their sums; given the merged output and sum, the kernel's backward makes the exact
gradient of each part. Parts are merged in float32 (float64 where the products are), and every sum has one order.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from rollwright.learner.trie import PackedRows, Tile, tree_mask

__all__ = ["SavedAttention", "flex_tree_attention", "tree_attention", "tree_backward", "tree_forward"]

LEAST_HEAD = 16
"""Numbers of a head that FlexAttention's kernels take at least."""

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedAttention:
    """What `tree_backward` needs of a forward pass."""

    query: Tensor
    key: Tensor
    value: Tensor
    out: Tensor
    """(u, H, d)"""
    log_sums: Tensor
    """(u, H) float32, or float64 where the queries are, log Σ exp of each query's scaled scores."""
    rows: PackedRows
    scaling: float


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


def tree_forward(
    query: Tensor, key: Tensor, value: Tensor, rows: PackedRows, scaling: float
) -> tuple[Tensor, SavedAttention]:
    """`tree_attention` on a CPU without autograd.

    Args:
        query: (u, H, d), rotated, in the order of `rows.distinct`; the last dimension is contiguous, as in the others.
        key: (u, K, d), rotated; K divides H.
        value: (u, K, d), of the same type as the others.
        rows: who sees whom.
        scaling: of the scores.

    Returns:
        (u, H, d), and what `tree_backward` needs; it refers to the inputs, which must stay as they are until then.
    """
    wide = torch.promote_types(query.dtype, torch.float32)
    total = query.new_empty(query.shape, dtype=wide if rows.trunks else query.dtype)
    log_sums = query.new_empty(query.shape[:2], dtype=wide)
    for tile in rows.blocks:
        part, part_sums = _attend(query, key, value, tile, scaling)
        total[tile.queries] = part
        log_sums[tile.queries] = part_sums
    for tile in rows.trunks:
        part, part_sums = _attend(query, key, value, tile, scaling)
        sums = log_sums[tile.queries]
        share = torch.sigmoid(part_sums - sums).unsqueeze(-1)
        total[tile.queries].lerp_(part.to(wide), share)
        torch.logaddexp(sums, part_sums, out=sums)
    out = total.to(query.dtype)
    saved = SavedAttention(query=query, key=key, value=value, out=out, log_sums=log_sums, rows=rows, scaling=scaling)
    return out, saved


def tree_backward(grad: Tensor, saved: SavedAttention) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value.

    Args:
        grad: (u, H, d), of the output.
        saved: of `tree_forward`.

    Returns:
        (u, H, d), (u, K, d) and (u, K, d), of the types of the inputs.
    """
    rows, inputs = saved.rows, (saved.query, saved.key, saved.value)
    wide = torch.promote_types(grad.dtype, torch.float32)
    totals = [one.new_empty(one.shape, dtype=wide if rows.trunks else one.dtype) for one in inputs]
    for tile in rows.blocks:
        parts = _part_gradients(grad, saved, tile)
        for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
            total[where] = part
    for tile in rows.trunks:
        parts = _part_gradients(grad, saved, tile)
        for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
            total[where] += part
    of_query, of_key, of_value = (total.to(one.dtype) for total, one in zip(totals, inputs, strict=True))
    return of_query, of_key, of_value


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
    """`tree_forward` and `tree_backward` as one differentiable function."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        query: Tensor,
        key: Tensor,
        value: Tensor,
        rows: PackedRows,
        scaling: float,
    ) -> Tensor:
        out, saved = tree_forward(query, key, value, rows, scaling)
        ctx.save_for_backward(query, key, value, out, saved.log_sums)
        ctx.rows, ctx.scaling = rows, scaling
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        query, key, value, out, log_sums = ctx.saved_tensors
        saved = SavedAttention(
            query=query, key=key, value=value, out=out, log_sums=log_sums, rows=ctx.rows, scaling=ctx.scaling
        )
        return *tree_backward(grads[0], saved), None, None


def _attend(query: Tensor, key: Tensor, value: Tensor, tile: Tile, scaling: float) -> tuple[Tensor, Tensor]:
    """(n, H, d) and (n, H) of a tile alone."""
    q, k, v = _heads(query, tile, tile.queries), _heads(key, tile, tile.keys), _heads(value, tile, tile.keys)
    out, sums = _forward(q, k, v, 0.0, _is_causal(tile), attn_mask=_mask(tile, query), scale=scaling)
    return _states(out), _states(sums)


def _part_gradients(grad: Tensor, saved: SavedAttention, tile: Tile) -> tuple[Tensor, Tensor, Tensor]:
    """(n, H, d), (m, K, d) and (m, K, d): a tile's part in the gradients of its queries, keys and values."""
    due, query, out, sums = (_heads(one, tile, tile.queries) for one in (grad, saved.query, saved.out, saved.log_sums))
    key, value = (_heads(one, tile, tile.keys) for one in (saved.key, saved.value))
    mask = _mask(tile, query)
    found = _backward(due, query, key, value, out, sums, 0.0, _is_causal(tile), attn_mask=mask, scale=saved.scaling)
    of_query, of_key, of_value = (_states(one) for one in found)
    return of_query, of_key, of_value


def _heads(states: Tensor, tile: Tile, where: slice) -> Tensor:
    """(n, H, …) seen as (repeats, H, n / repeats, …); the kernel lets K heads serve H."""
    return states[where].unflatten(0, (tile.repeats, -1)).transpose(1, 2)


def _states(heads: Tensor) -> Tensor:
    """The same back again."""
    return heads.transpose(1, 2).flatten(0, 1)


def _mask(tile: Tile, query: Tensor) -> Tensor | None:
    """In the type that the kernel adds scores in, which it does not check."""
    return None if tile.mask is None else tile.mask.to(torch.promote_types(query.dtype, torch.float32))


def _is_causal(tile: Tile) -> bool:
    return tile.mask is None and tile.queries == tile.keys
