"""Hidden states of packed rows: every layer sees each distinct token once.

    (t,) ──distinct──► (u, h) ──linear layers──► q, k, v (u, H, d) ──attention over the trie──► (u, H, d)

Rows that begin with the same tokens (the system prompt of all, the task of a group) share those states: they are
computed once, and their gradients are summed. No token sees another row's. Every sum has one order.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel

from rollwright.learner.errors import ModelError
from rollwright.learner.tree_attention import tree_attention
from rollwright.learner.trie import PackedRows, pack_rows

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
"""A padded bucket takes rows down to this share of its longest: little padding, and no call of its own for each row."""
_BUCKET_SLACK = 16
"""Rows this many tokens shorter than the longest always share its bucket."""


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
    offsets = rows.row_offsets
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    pieces: list[Tensor] = []
    places: list[NDArray[np.int64]] = []
    while len(order):
        width = int(lengths[order[0]])
        count = int((lengths[order] >= min(width * _BUCKET_RATIO, width - _BUCKET_SLACK)).sum())
        bucket, order = order[:count], order[count:]
        is_real = np.arange(width) < lengths[bucket, None]
        places.append((offsets[bucket, None] + np.arange(width))[is_real])
        mask = torch.from_numpy(is_real).to(token_ids.device)
        ids = token_ids.new_zeros(mask.shape).masked_scatter(mask, token_ids[torch.from_numpy(places[-1])])
        output = model.base_model(input_ids=ids, attention_mask=mask.long(), use_cache=False)
        pieces.append(output.last_hidden_state[mask])
    found_at = np.argsort(np.concatenate(places))[rows.distinct.cpu().numpy()]
    return torch.cat(pieces).index_select(0, torch.from_numpy(found_at).to(token_ids.device))


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
    given: float | None = options.get("scaling")
    scaling = query.shape[-1] ** -0.5 if given is None else given
    packed_rows: PackedRows | None = options.get("packed_rows")
    query, key = query.to(value.dtype), key.to(value.dtype)
    if packed_rows is None:
        return _causal(query, key, value, scaling).transpose(1, 2).contiguous(), None
    of_query, of_key, of_value = (part[0].transpose(0, 1) for part in (query, key, value))
    return tree_attention(of_query, of_key, of_value, packed_rows, scaling)[None], None


def refuse_mask(**arguments: Any) -> None:  # noqa: ANN401 - the interface hands over what a mask could need
    """No mask is made; a given one, which transformers would drop without a word, is refused.

    Args:
        arguments: among them `attention_mask`.
    """
    if arguments.get("attention_mask") is not None:
        raise ModelError("packed attention takes no attention mask; give whole rows without padding.")


def _causal(query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
    """(B, H, n, d) attention in which position i sees 0…i."""
    has_groups = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling, enable_gqa=has_groups)


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
