"""Hidden states of packed rows: linear layers see tokens without padding, attention sees one row at a time.

    (1, t, h) ──linear layers──► q, k, v (1, H, t, d) ──unpack like rows──► SDPA, causal ──pack──► (1, t, H, d)

A row stands left-aligned in its bucket, so causality alone keeps its tokens from the padding behind them, and no
token of one row can see another. Unpacking and packing are gathers in both directions: their order is fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from rollwright.learner.errors import ModelError

__all__ = [
    "PACKED_FAMILIES",
    "PackedRows",
    "has_packed_path",
    "pack_rows",
    "packed_hidden",
    "padded_hidden",
    "take_tokens",
    "use_packed_attention",
]

PACKED_FAMILIES = ("llama", "qwen2", "qwen3", "mistral", "smollm3")
"""Model types whose attention goes through transformers' attention interface, with rotary positions given by us."""

ATTENTION_NAME = "rollwright_packed"
_BUCKET_RATIO = 0.75
"""A bucket takes rows down to this share of its longest: padding costs attention at most a third, and small rows
do not make a call of their own."""
_BUCKET_SLACK = 16
"""Rows this many tokens shorter than the longest always share its bucket."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bucket:
    """Rows of like length, computed together."""

    num_rows: int
    width: int
    tokens: Tensor
    """(n,) int64, places in the packed stream."""
    places: Tensor
    """(n,) int64, the same tokens' places in the flat (num_rows · width) rectangle."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PackedRows:
    """How the rows of a packed stream are cut apart for attention."""

    num_tokens: int
    buckets: tuple[Bucket, ...]


def pack_rows(row_offsets: Tensor) -> PackedRows:
    """Group rows of like length.

    Args:
        row_offsets: (r + 1,) int64, ascending from 0; every row has a token.

    Returns:
        Buckets that hold every token of the stream once; a function of the row lengths alone.
    """
    offsets: list[int] = row_offsets.tolist()
    lengths = [end - start for start, end in zip(offsets, offsets[1:], strict=False)]
    order = sorted((row for row, length in enumerate(lengths) if length), key=lambda row: (-lengths[row], row))
    buckets: list[Bucket] = []
    while order:
        width = lengths[order[0]]
        least = min(int(width * _BUCKET_RATIO), width - _BUCKET_SLACK)
        rows = [row for row in order if lengths[row] >= least]
        buckets.append(_bucket(rows, offsets, width, row_offsets.device))
        order = order[len(rows) :]
    return PackedRows(num_tokens=offsets[-1], buckets=tuple(buckets))


def _bucket(rows: Sequence[int], offsets: Sequence[int], width: int, device: torch.device) -> Bucket:
    starts = torch.tensor([offsets[row] for row in rows])
    lengths = torch.tensor([offsets[row + 1] - offsets[row] for row in rows])
    column = torch.arange(width)
    is_real = column < lengths[:, None]
    tokens = (starts[:, None] + column)[is_real]
    places = is_real.flatten().nonzero().squeeze(1)
    return Bucket(num_rows=len(rows), width=width, tokens=tokens.to(device), places=places.to(device))


def has_packed_path(model: PreTrainedModel) -> bool:
    """True for a model of `PACKED_FAMILIES` all of whose layers attend to the whole row."""
    layer_types = model.config.to_dict().get("layer_types") or ["full_attention"]
    return model.config.model_type in PACKED_FAMILIES and set(layer_types) == {"full_attention"}


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
    model.set_attn_implementation(ATTENTION_NAME)


def packed_hidden(model: PreTrainedModel, token_ids: Tensor, position_ids: Tensor, rows: PackedRows) -> Tensor:
    """The last hidden state of every token.

    Args:
        model: prepared by `use_packed_attention`.
        token_ids: (t,) int64.
        position_ids: (t,) int64, from 0 in every row.
        rows: of the same stream.

    Returns:
        (t, h), differentiable.
    """
    output = model.base_model(
        input_ids=token_ids[None], position_ids=position_ids[None], use_cache=False, packed_rows=rows
    )
    return output.last_hidden_state[0]


def padded_hidden(model: PreTrainedModel, token_ids: Tensor, rows: PackedRows) -> Tensor:
    """The last hidden state of every token, rows padded on the right: slower, for any causal LM.

    Args:
        model: with an attention implementation of its own.
        token_ids: (t,) int64.
        rows: of the same stream.

    Returns:
        (t, h), differentiable.
    """
    pieces: list[Tensor] = []
    for bucket in rows.buckets:
        flat = token_ids.new_zeros(bucket.num_rows * bucket.width)
        mask = flat.index_fill(0, bucket.places, 1).view(bucket.num_rows, bucket.width)
        flat = flat.index_copy(0, bucket.places, token_ids.index_select(0, bucket.tokens))
        output = model.base_model(input_ids=flat.view_as(mask), attention_mask=mask, use_cache=False)
        pieces.append(output.last_hidden_state.flatten(0, 1))
    return _Pack.apply(rows, *pieces)


def take_tokens(stream: Tensor, places: Tensor) -> Tensor:
    """(n, c) rows of a (t, c) stream at distinct places; the backward pass is a copy, not a sum."""
    return _Take.apply(stream, places)


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
    if attention_mask is not None:
        raise ModelError("packed attention takes no attention mask; give row_offsets, or use the padded path.")
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
    return joined.view(1, packed_rows.num_tokens, query.shape[1], value.shape[-1]), None


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """(B, H, n, d) attention in which position i sees 0…i."""
    has_groups = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=has_groups)


class _Unpack(torch.autograd.Function):
    """(t, c) stream to one (rows · width, c) rectangle a bucket, zero behind each row's end."""

    @staticmethod
    def forward(ctx: Any, stream: Tensor, rows: PackedRows) -> tuple[Tensor, ...]:  # noqa: ANN401 - torch's context
        ctx.rows = rows
        return _to_rectangles(stream, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's context
        return _to_stream(grads, ctx.rows), None


class _Pack(torch.autograd.Function):
    """The reverse of `_Unpack`."""

    @staticmethod
    def forward(ctx: Any, rows: PackedRows, *rectangles: Tensor) -> Tensor:  # noqa: ANN401 - torch's context
        ctx.rows = rows
        return _to_stream(rectangles, rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        return None, *_to_rectangles(grads[0], ctx.rows)


class _Take(torch.autograd.Function):
    """Rows of a stream at distinct places."""

    @staticmethod
    def forward(ctx: Any, stream: Tensor, places: Tensor) -> Tensor:  # noqa: ANN401 - torch's context
        ctx.save_for_backward(places)
        ctx.length = len(stream)
        return stream.index_select(0, places)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:  # noqa: ANN401 - torch's context
        (places,) = ctx.saved_tensors
        (grad,) = grads
        return grad.new_zeros(ctx.length, *grad.shape[1:]).index_copy_(0, places, grad), None


def _to_rectangles(stream: Tensor, rows: PackedRows) -> tuple[Tensor, ...]:
    rectangles: list[Tensor] = []
    for bucket in rows.buckets:
        rectangle = stream.new_zeros(bucket.num_rows * bucket.width, stream.shape[1])
        rectangles.append(rectangle.index_copy_(0, bucket.places, stream.index_select(0, bucket.tokens)))
    return tuple(rectangles)


def _to_stream(rectangles: Sequence[Tensor], rows: PackedRows) -> Tensor:
    stream = rectangles[0].new_empty(rows.num_tokens, rectangles[0].shape[1])
    for bucket, rectangle in zip(rows.buckets, rectangles, strict=True):
        stream.index_copy_(0, bucket.tokens, rectangle.index_select(0, bucket.places))
    return stream
