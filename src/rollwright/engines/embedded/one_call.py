"""The small operations between the products of a layer, each stretch of them as one call.

A decode step of few rows is some hundred operations of microseconds, and a good part of its time goes by between them,
in the interpreter and its way into torch. TorchScript runs the same operations in the same order without it, and gives
the same bits: a step of one row took a tenth less. It asks for no compiler and fuses nothing here. Where this Python
has no TorchScript (from 3.14 on), or the sources are not there to be read, the functions run as they stand.
"""

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from rollwright.engines.embedded.layer_cache import LayerCache, Lines, Slots

__all__ = [
    "Ends",
    "Matrices",
    "Step",
    "gated",
    "normed",
    "plain_step",
    "store",
    "store_and_attend",
    "turned",
    "turns_at",
]

Given = ParamSpec("Given")
Made = TypeVar("Made")

_FIRST_WITHOUT = (3, 14)


class Matrices(NamedTuple):
    """Those of one layer, none of them packed."""

    qkv: Tensor
    qkv_bias: Tensor | None
    qk_norm: Tensor | None
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


class Ends(NamedTuple):
    """What stands before and behind the layers, and the constants of the norms."""

    embedding: Tensor
    turns: Tensor
    """(positions, head size / 2) complex."""
    eps: Tensor
    """(), that of the norm times the hidden size."""
    head_eps: Tensor
    """(), that of the norm times the head size."""
    final_norm: Tensor
    head: Tensor


class Step(NamedTuple):
    """What a step with one query a row reads, and where it writes."""

    ids: Tensor
    """(padded rows,)"""
    positions: Tensor
    """(padded rows,)"""
    slots: Slots
    lines: Lines
    mask: Tensor
    """(rows, 1, blocks of the longest row * 64), 0 or −inf."""


def _as_one_call(function: Callable[Given, Made]) -> Callable[Given, Made]:
    if sys.version_info >= _FIRST_WITHOUT:
        return function
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            return torch.jit.script(function)
        except OSError:
            return function


@_as_one_call
def _scale(hidden: Tensor, eps: Tensor) -> Tensor:
    """(…, 1) float32 that `normed` multiplies with."""
    wide = hidden.float()
    return (wide * wide).sum(-1, keepdim=True).add_(eps).rsqrt_()


@_as_one_call
def normed(hidden: Tensor, eps: Tensor) -> Tensor:
    """Root-mean-square norm over the last axis, over the root of its size, which the weights behind it hold.

    Args:
        hidden: (…, size).
        eps: (), that of the norm times the size: a Python number would be made a tensor at each call.
    """
    return (hidden * _scale(hidden, eps)).to(hidden.dtype)


@_as_one_call
def turns_at(table: Tensor, positions: Tensor, num_heads: int, num_rotated: int) -> Tensor:
    """By what all heads of rows are turned: those behind the first ones, which hold values, by nothing.

    Args:
        table: (n, head size / 2) complex.
        positions: (rows,)
        num_heads: heads + 2 kv heads.
        num_rotated: heads + kv heads.

    Returns:
        (rows, num_heads, head size / 2) complex.
    """
    turns = torch.ones([positions.size(0), num_heads, table.size(1)], dtype=table.dtype, device=table.device)
    turns[:, :num_rotated] = table.index_select(0, positions).unsqueeze(1)
    return turns


@_as_one_call
def turned(fused: Tensor, qk_norm: Tensor | None, eps: Tensor, turns: Tensor, num_rotated: int) -> Tensor:
    """Norm queries and keys where the model does, and turn them by their positions.

    Args:
        fused: (rows, heads + 2 kv heads, head size), queries first; changed in place.
        qk_norm: (heads + kv heads, head size)
        eps: (), that of the norm times the head size.
        turns: (rows, heads + 2 kv heads, head size / 2) complex: neighbors are turned together, and values by nothing.
        num_rotated: heads that carry positions.

    Returns:
        The same shape in float32.
    """
    if qk_norm is not None:
        plain = fused[:, :num_rotated]
        plain.mul_(_scale(plain, eps)).mul_(qk_norm)
    wide = fused.float()
    torch.view_as_complex(wide.view(wide.size(0), wide.size(1), -1, 2)).mul_(turns)
    return wide


@_as_one_call
def store(rows: Tensor, cache: LayerCache, slots: Slots) -> None:
    """Write keys and values.

    Args:
        rows: (rows, heads + 2 kv heads, head size), queries first, values last.
        cache: of one layer.
        slots: where each row goes.
    """
    num_kv_heads = cache.key_slots.size(2)
    num_rotated = rows.size(1) - num_kv_heads
    where: list[Tensor | None] = [slots.blocks, slots.offsets]
    cache.key_slots.index_put_(where, rows[:, num_rotated - num_kv_heads : num_rotated])
    cache.value_slots.index_put_(where, rows[:, num_rotated:])


@_as_one_call
def _weighted(table: Tensor, lines: Tensor, ends: Tensor, weights: Tensor) -> Tensor:
    """Sums of lines with weights, one sum for each span of `ends`; an empty span gives zeros."""
    # Mode 0 adds.
    return torch.embedding_bag(table, lines, ends, mode=0, per_sample_weights=weights, include_last_offset=True)[0]


@_as_one_call
def store_and_attend(rows: Tensor, cache: LayerCache, slots: Slots, lines: Lines, mask: Tensor) -> Tensor:
    """Write the keys and values of a step with one query a row, and attend over all that the cache holds.

    Args:
        rows: (padded rows, heads + 2 kv heads, head size), queries first.
        cache: of one layer.
        slots: where keys and values go.
        lines: what is read; `attention` says how.
        mask: (rows, 1, blocks of the longest row * 64), 0 or −inf.

    Returns:
        (padded rows, heads * head size)
    """
    store(rows, cache, slots)
    weights = rows.view(-1, rows.size(2)).index_select(0, lines.query_of).view(-1)
    scores = _weighted(cache.key_lines, lines.keys, lines.key_ends, weights)
    shares = torch.softmax(scores.view(mask.size(0), -1, mask.size(2)).add_(mask), -1)
    live = lines.live
    if live is not None:
        shares = shares.view(-1, cache.key_lines.size(1)).index_select(0, live)
    mixed = _weighted(cache.value_lines, lines.values, lines.value_ends, shares.view(-1))
    return mixed.view(rows.size(0), -1)


@_as_one_call
def gated(gate_up: Tensor) -> Tensor:
    """(…, 2 * intermediate), gates first, to (…, intermediate)."""
    gate, up = gate_up.chunk(2, -1)
    return F.silu(gate).mul_(up)


@_as_one_call
def _added(total: Tensor, rows: Tensor, matrix: Tensor, bias: Tensor | None) -> Tensor:
    """A product added to what may be overwritten."""
    if bias is None:
        return total.addmm_(rows, matrix.t())
    return F.linear(rows, matrix, bias).add_(total)


@_as_one_call
def plain_step(step: Step, ends: Ends, layers: list[Matrices], caches: list[LayerCache]) -> Tensor:
    """A whole step with one query a row, of a model whose matrices are not packed.

    Returns:
        (padded rows, V) logits.
    """
    num_kv_heads, head_size = caches[0].key_slots.size(2), caches[0].value_lines.size(1)
    num_heads = layers[0].qkv.size(0) // head_size
    num_rotated = num_heads - num_kv_heads
    turns = turns_at(ends.turns, step.positions, num_heads, num_rotated)
    hidden = F.embedding(step.ids, ends.embedding)
    for matrices, cache in zip(layers, caches):  # noqa: B905 - TorchScript knows no `strict`
        fused = F.linear(normed(hidden, ends.eps), matrices.qkv, matrices.qkv_bias).view(-1, num_heads, head_size)
        rows = turned(fused, matrices.qk_norm, ends.head_eps, turns, num_rotated).to(cache.key_lines.dtype)
        attended = store_and_attend(rows, cache, step.slots, step.lines, step.mask).to(hidden.dtype)
        hidden = _added(hidden, attended, matrices.out, matrices.out_bias)
        wide = F.linear(normed(hidden, ends.eps), matrices.gate_up, matrices.gate_up_bias)
        hidden = _added(hidden, gated(wide), matrices.down, matrices.down_bias)
    return F.linear(normed(hidden, ends.eps).mul_(ends.final_norm), ends.head)
