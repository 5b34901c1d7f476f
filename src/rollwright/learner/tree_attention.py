"""Attention over a trie of rows: a shared beginning is attended to by one long run of queries, not once for each row.

Each tile of `PackedRows` is one call of the fused kernel on views. Where a query stands in several tiles, their parts
are merged by the logarithms of their sums; given the merged output and sum, the kernel's backward makes the exact
gradient of each part. Parts are merged in float32 whatever the products are in, and every sum has one order.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import flex_attention

from rollwright.learner.trie import PackedRows, Tile, tree_mask

__all__ = ["SavedAttention", "flex_tree_attention", "tree_attention", "tree_backward", "tree_forward"]

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
    """(K, H / K, u) float32, log Σ exp of each query's scaled scores."""
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
    num_keys = key.shape[1]
    total = query.new_empty(query.shape, dtype=torch.float32 if rows.trunks else query.dtype)
    log_sums = query.new_empty(num_keys, query.shape[1] // num_keys, len(query), dtype=torch.float32)
    for tile in rows.blocks:
        part, part_sums = _attend(query, key, value, tile, scaling)
        _heads(total[tile.queries], num_keys).copy_(part)
        log_sums[..., tile.queries] = part_sums
    for tile in rows.trunks:
        part, part_sums = _attend(query, key, value, tile, scaling)
        sums = log_sums[..., tile.queries]
        share = torch.sigmoid(part_sums - sums).unsqueeze(-1)
        _heads(total[tile.queries], num_keys).lerp_(part.float(), share)
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
    key, rows = saved.key, saved.rows
    inputs = (saved.query, key, saved.value)
    totals = [one.new_empty(one.shape, dtype=torch.float32 if rows.trunks else one.dtype) for one in inputs]
    for tile in rows.blocks:
        parts = _part_gradients(grad, saved, tile)
        for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
            _heads(total[where], key.shape[1]).copy_(part)
    for tile in rows.trunks:
        parts = _part_gradients(grad, saved, tile)
        for total, part, where in zip(totals, parts, (tile.queries, tile.keys, tile.keys), strict=True):
            _heads(total[where], key.shape[1]).add_(part)
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
    q, k, v = (one.transpose(0, 1).unsqueeze(0) for one in (query, key, value))
    mask = tree_mask(rows.ends) if rows.flex_mask is None else rows.flex_mask
    found = attend(q, k, v, block_mask=mask, scale=scaling, enable_gqa=query.shape[1] != key.shape[1])
    assert isinstance(found, Tensor)
    return found[0].transpose(0, 1)


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
    """(K, G, n, d) and (K, G, n) of a tile alone."""
    q, k, v = _tile_heads(query, key, value, tile)
    return _forward(q, k, v, 0.0, _is_causal(tile), attn_mask=tile.mask, scale=scaling)


def _part_gradients(grad: Tensor, saved: SavedAttention, tile: Tile) -> tuple[Tensor, Tensor, Tensor]:
    """(K, G, n, d), (K, 1, m, d) and (K, 1, m, d): a tile's part in the gradients of its queries and keys."""
    q, k, v = _tile_heads(saved.query, saved.key, saved.value, tile)
    out, due = (_heads(one[tile.queries], len(k)) for one in (saved.out, grad))
    sums = saved.log_sums[..., tile.queries]
    of_query, of_key, of_value = _backward(
        due, q, k, v, out, sums, 0.0, _is_causal(tile), attn_mask=tile.mask, scale=saved.scaling
    )
    if q.shape[1] == 1:
        return of_query, of_key, of_value
    return of_query, of_key.sum(1, keepdim=True), of_value.sum(1, keepdim=True)


def _tile_heads(query: Tensor, key: Tensor, value: Tensor, tile: Tile) -> tuple[Tensor, Tensor, Tensor]:
    """Views of (K, G, n, d): each key serves a group of G queries."""
    num_keys = key.shape[1]
    q = _heads(query[tile.queries], num_keys)
    k, v = (_heads(one[tile.keys], num_keys).expand(-1, q.shape[1], -1, -1) for one in (key, value))
    return q, k, v


def _heads(states: Tensor, num_keys: int) -> Tensor:
    """(n, H, d) seen as (K, H / K, n, d)."""
    return states.unflatten(1, (num_keys, -1)).permute(1, 2, 0, 3)


def _is_causal(tile: Tile) -> bool:
    return tile.mask is None and tile.queries == tile.keys
