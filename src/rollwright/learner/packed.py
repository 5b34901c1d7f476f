"""Hidden states of packed rows: linear layers see each distinct token once, attention sees one row at a time.

    (t,) ──distinct──► (u, h) ──linear layers──► q, k, v (u, H, d) ──unpack rows──► SDPA, causal ──pack──► (u, H, d)

Rows that begin with the same tokens (the system prompt of all, the task of a group) share those states: they are
computed once, and their gradients are summed. A row stands left-aligned in a bucket of rows of like length, so
causality alone keeps its tokens from the padding behind them, and no token sees another row's. Every sum has one order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from rollwright.learner.errors import ModelError

__all__ = [
    "PACKED_FAMILIES",
    "PackedRows",
    "has_packed_path",
    "pack_rows",
    "packed_hidden",
    "padded_hidden",
    "take_states",
    "use_packed_attention",
]

PACKED_FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "smollm3")
"""Model types whose attention goes through transformers' attention interface, with rotary positions given by us."""

ATTENTION_NAME = "rollwright_packed"
_BUCKET_RATIO = 0.75
"""A bucket takes rows down to this share of its longest: little padding, and no call of its own for each row."""
_BUCKET_SLACK = 16
"""Rows this many tokens shorter than the longest always share its bucket."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bucket:
    """Rows of like length, computed together as a (num_rows, width) rectangle."""

    num_rows: int
    width: int
    places: Tensor
    """(n,) int64, where in the flat rectangle its real tokens stand."""
    states: Tensor
    """(n,) int64, the distinct token at each of them."""
    own_places: Tensor
    """(m,) int64, the places whose distinct token is computed here."""
    own_states: Tensor
    """(m,) int64, those tokens, each once over all buckets."""
    copy_places: Tensor
    """(n - m,) int64, the places that show a token computed elsewhere."""
    copy_states: Tensor
    """(n - m,) int64"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedRows:
    """How a packed stream of t tokens is cut into rows, and which tokens are distinct."""

    distinct: Tensor
    """(u,) int64, the place in the stream where each distinct token is computed, ascending."""
    state_of: Tensor
    """(t,) int64, the distinct token that stands at each place."""
    buckets: tuple[Bucket, ...]


def pack_rows(token_ids: Tensor, row_offsets: Tensor) -> PackedRows:
    """Find common beginnings and group rows of like length.

    Args:
        token_ids: (t,) int64.
        row_offsets: (r + 1,) int64, ascending from 0; every row has a token.

    Returns:
        A function of the tokens and row lengths alone.
    """
    device = token_ids.device
    ids, offsets = token_ids.cpu().numpy(), row_offsets.cpu().numpy()
    first = first_places(ids, offsets)
    distinct, state_of = np.unique(first, return_inverse=True)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    buckets: list[Bucket] = []
    while len(order):
        width = int(lengths[order[0]])
        count = int((lengths[order] >= min(width * _BUCKET_RATIO, width - _BUCKET_SLACK)).sum())
        buckets.append(_bucket(offsets, order[:count], first, state_of, device))
        order = order[count:]
    return PackedRows(
        distinct=torch.from_numpy(distinct).to(device),
        state_of=torch.from_numpy(state_of).to(device),
        buckets=tuple(buckets),
    )


def first_places(token_ids: NDArray[np.int64], row_offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the state of each token is computed: in the first row, by order of tokens, that begins the same way.

    Args:
        token_ids: (t,)
        row_offsets: (r + 1,)

    Returns:
        (t,) places; a token's own where no other row begins as its row does up to it.
    """
    first = np.arange(len(token_ids))
    big_endian = token_ids.astype(">i8")
    rows = [
        (big_endian[start:end].tobytes(), int(start)) for start, end in zip(row_offsets, row_offsets[1:], strict=False)
    ]
    rows.sort()
    for (before, above), (row, start) in zip(rows, rows[1:], strict=False):
        shared = min(len(before), len(row)) // 8
        differs = token_ids[above : above + shared] != token_ids[start : start + shared]
        same = int(differs.argmax()) if differs.any() else shared
        first[start : start + same] = first[above : above + same]
    return first


def _bucket(
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    first: NDArray[np.int64],
    state_of: NDArray[np.int64],
    device: torch.device,
) -> Bucket:
    lengths = offsets[rows + 1] - offsets[rows]
    column = np.arange(lengths[0])
    is_real = column < lengths[:, None]
    tokens = (offsets[rows][:, None] + column)[is_real]
    places, states, is_own = is_real.ravel().nonzero()[0], state_of[tokens], first[tokens] == tokens
    parts = (places, states, places[is_own], states[is_own], places[~is_own], states[~is_own])
    tensors = [torch.from_numpy(part).to(device) for part in parts]
    return Bucket(
        num_rows=len(rows),
        width=len(column),
        places=tensors[0],
        states=tensors[1],
        own_places=tensors[2],
        own_states=tensors[3],
        copy_places=tensors[4],
        copy_states=tensors[5],
    )


def has_packed_path(model: PreTrainedModel) -> bool:
    """True for a model of `PACKED_FAMILIES` all of whose layers attend to the whole row."""
    config = model.config.to_dict()
    layers = config.get("layer_types") or ["full_attention" if config.get("sliding_window") is None else "sliding"]
    return model.config.model_type in PACKED_FAMILIES and set(layers) == {"full_attention"}


def use_packed_attention(model: PreTrainedModel) -> None:
    """Let the model attend by `packed_attention`; a model whose layers need more than that is refused.

    Args:
        model: changed in place (its attention implementation, which is not saved with it).
    """
    if not has_packed_path(model):
        raise ModelError(
            f"a model of type {model.config.model_type!r} has no packed path; models of type "
            f"{', '.join(PACKED_FAMILIES)} have one where every layer has full attention. Use the padded path."
        )
    AttentionInterface.register(ATTENTION_NAME, packed_attention)
    AttentionMaskInterface.register(ATTENTION_NAME, refuse_mask)
    model.set_attn_implementation(ATTENTION_NAME)


def packed_hidden(model: PreTrainedModel, token_ids: Tensor, position_ids: Tensor, rows: PackedRows) -> Tensor:
    """The last hidden state of every distinct token.

    Args:
        model: prepared by `use_packed_attention`.
        token_ids: (t,) int64.
        position_ids: (t,) int64, from 0 in every row.
        rows: of the same stream.

    Returns:
        (u, h), differentiable; `rows.state_of` says whose they are.
    """
    ids, positions = token_ids[rows.distinct], position_ids[rows.distinct]
    output = model.base_model(input_ids=ids[None], position_ids=positions[None], use_cache=False, packed_rows=rows)
    return output.last_hidden_state[0]


def padded_hidden(model: PreTrainedModel, token_ids: Tensor, rows: PackedRows) -> Tensor:
    """The last hidden state of every distinct token, rows whole and padded on the right: slower, for any causal LM.

    Args:
        model: with an attention implementation of its own.
        token_ids: (t,) int64.
        rows: of the same stream.

    Returns:
        (u, h), differentiable.
    """
    pieces: list[Tensor] = []
    distinct = token_ids[rows.distinct]
    for bucket in rows.buckets:
        flat = token_ids.new_zeros(bucket.num_rows * bucket.width)
        mask = flat.index_fill(0, bucket.places, 1).view(bucket.num_rows, bucket.width)
        flat = flat.index_copy(0, bucket.places, distinct[bucket.states])
        output = model.base_model(input_ids=flat.view_as(mask), attention_mask=mask, use_cache=False)
        pieces.append(output.last_hidden_state.flatten(0, 1))
    return _Pack.apply(rows, *pieces)


def take_states(hidden: Tensor, rows: PackedRows, places: Tensor) -> Tensor:
    """(n, h) states of the tokens at `places` (n,) of the stream, from (u, h); shared ones sum their gradients."""
    return _Take.apply(hidden, rows.state_of[places])


def packed_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,  # noqa: ANN401 - the interface hands over what the model's layers carry
) -> tuple[Tensor, None]:
    """Attention as transformers' attention interface calls it.

    Args:
        module: the layer; unused.
        query: (1, H, t, d), rotated.
        key: (1, K, t, d), rotated; K divides H.
        value: (1, K, t, d).
        attention_mask: must be None; the rows say who sees whom.
        options: `scaling` of the scores (1/sqrt(d) without it) and `packed_rows`; without the second, plain causal
            attention of an unpadded batch.

    Returns:
        (1, t, H, d), and no attention weights.
    """
    if attention_mask is not None or options.get("sliding_window") is not None:
        raise ModelError("packed attention has neither mask nor window; give whole rows, or use the padded path.")
    scaling: float | None = options.get("scaling")
    packed_rows: PackedRows | None = options.get("packed_rows")
    query, key = query.to(value.dtype), key.to(value.dtype)
    if packed_rows is None:
        return _causal(query, key, value, scaling).transpose(1, 2).contiguous(), None
    rectangles = [_Unpack.apply(part[0].transpose(0, 1).flatten(1), packed_rows) for part in (query, key, value)]
    outputs: list[Tensor] = []
    for bucket, parts in zip(packed_rows.buckets, zip(*rectangles, strict=True), strict=True):
        shape = (bucket.num_rows, bucket.width, -1, query.shape[-1])
        q, k, v = (part.view(shape).transpose(1, 2) for part in parts)
        outputs.append(_causal(q, k, v, scaling).transpose(1, 2).reshape(bucket.num_rows * bucket.width, -1))
    joined: Tensor = _Pack.apply(packed_rows, *outputs)
    return joined.view(1, len(packed_rows.distinct), query.shape[1], value.shape[-1]), None


def refuse_mask(**arguments: Any) -> None:  # noqa: ANN401 - the interface hands over what a mask could need
    """No mask is made; a given one, which transformers would drop without a word, is refused.

    Args:
        arguments: among them `attention_mask`.
    """
    if arguments.get("attention_mask") is not None:
        raise ModelError("packed attention takes no attention mask; give whole rows without padding.")


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """(B, H, n, d) attention in which position i sees 0…i."""
    has_groups = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=has_groups)


class _Unpack(torch.autograd.Function):
    """(u, c) states to one (rows · width, c) rectangle a bucket, zero behind each row's end; gradients are summed."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, rows: PackedRows) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's context
        ctx.rows = rows
        return tuple(_rectangle(bucket, states, bucket.places, bucket.states) for bucket in rows.buckets)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's context
        rows: PackedRows = ctx.rows
        total = _own_states(grads, rows)
        for bucket, grad in zip(rows.buckets, grads, strict=True):
            if len(bucket.copy_places):
                total.index_add_(0, bucket.copy_states, grad.index_select(0, bucket.copy_places))
        return total, None


class _Pack(torch.autograd.Function):
    """Rectangles to (u, c) states, each taken where it is computed."""

    @staticmethod
    def forward(ctx: Any, rows: PackedRows, *rectangles: Tensor) -> Tensor:  # noqa: ANN401 - torch's context
        ctx.rows = rows
        return _own_states(rectangles, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        rows: PackedRows = ctx.rows
        return None, *(_rectangle(bucket, grads[0], bucket.own_places, bucket.own_states) for bucket in rows.buckets)


class _Take(torch.autograd.Function):
    """States by number; a number that stands twice sums its gradients, in order."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, numbers: Tensor) -> Tensor:  # noqa: ANN401 - torch's context
        ctx.save_for_backward(numbers)
        ctx.num_states = len(states)
        return states.index_select(0, numbers)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's context
        (numbers,) = ctx.saved_tensors
        return grads[0].new_zeros(ctx.num_states, *grads[0].shape[1:]).index_add_(0, numbers, grads[0]), None


def _rectangle(bucket: Bucket, states: Tensor, places: Tensor, numbers: Tensor) -> Tensor:
    blank = states.new_zeros(bucket.num_rows * bucket.width, states.shape[1])
    return blank.index_copy_(0, places, states.index_select(0, numbers))


def _own_states(rectangles: Sequence[Tensor], rows: PackedRows) -> Tensor:
    states = rectangles[0].new_empty(len(rows.distinct), rectangles[0].shape[1])
    for bucket, rectangle in zip(rows.buckets, rectangles, strict=True):
        states.index_copy_(0, bucket.own_states, rectangle.index_select(0, bucket.own_places))
    return states
