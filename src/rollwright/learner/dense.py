"""Hidden states of packed rows for dense decoders (Llama, Qwen2, Qwen3, Mistral): the model's own weights, our passes.

The layers are those of `transformers`; what differs is how often memory is read and written (`dense_layer.py`). The
model stays as it is: its parameters are the ones that get gradients, in its names.
"""

from collections.abc import Mapping
from enum import Enum
from typing import assert_never

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, MistralConfig, PreTrainedModel, Qwen2Config, Qwen3Config

from rollwright.learner.dense_layer import (
    AttentionWeights,
    FeedForwardWeights,
    LayerShape,
    attention_inputs,
    layer_output,
    normed,
)
from rollwright.learner.packed import has_packed_path
from rollwright.learner.tree_attention import tree_attention
from rollwright.learner.trie import PackedRows

__all__ = ["Activations", "dense_hidden", "why_not_dense"]

_DenseConfig = LlamaConfig | MistralConfig | Qwen2Config | Qwen3Config
_ATTENTION = ("input_layernorm.weight", *(f"self_attn.{part}_proj.weight" for part in "qkv"))
_ATTENTION_OPTIONS = (
    *(f"self_attn.{part}_proj.bias" for part in "qkv"),
    *(f"self_attn.{part}_norm.weight" for part in "qk"),
)
_FEED_FORWARD = ("self_attn.o_proj", "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


class Activations(Enum):
    """What the backward pass finds of a layer."""

    KEPT = "kept"
    RECOMPUTED = "recomputed"
    """The layer's input alone: a third more work, and the memory of one layer in place of all."""


def why_not_dense(model: PreTrainedModel) -> str | None:
    """Why a model does not take this path; None where it does.

    Args:
        model: any causal LM.

    Returns:
        A clause for a sentence about the model.
    """
    config = model.config
    if type(config) not in (LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config) or not has_packed_path(model):
        return f"its architecture is {config.model_type!r} or not all its layers have full attention"
    assert isinstance(config, _DenseConfig)
    if config.hidden_act != "silu":
        return f"its activation is {config.hidden_act!r}"
    names = dict(model.named_parameters()).keys()
    layers = range(int(config.num_hidden_layers))
    known = {f"model.layers.{i}.{name}" for i in layers for name in _layer_names()}
    known |= {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight", "lm_head.bias"}
    needed = {f"model.layers.{i}.{name}" for i in layers for name in _ATTENTION}
    strange = (names - known) | (needed - names)
    if strange:
        return f"its parameters are not those of its architecture, such as {sorted(strange)[0]}"
    return None


def dense_hidden(
    model: PreTrainedModel,
    token_ids: Tensor,
    position_ids: Tensor,
    rows: PackedRows,
    dtype: torch.dtype,
    activations: Activations = Activations.KEPT,
) -> Tensor:
    """The last hidden state of every distinct token.

    Args:
        model: one for which `why_not_dense` has nothing to say.
        token_ids: (t,) int64.
        position_ids: (t,) int64, from 0 in every row.
        rows: of the same stream.
        dtype: of the products.
        activations: what is kept for the backward pass.

    Returns:
        (u, h), differentiable once; `rows.state_of` says whose they are.
    """
    parameters = dict(model.named_parameters())
    shape = _shape_of(model.config, parameters, dtype)
    # The module and not its weight: where it has a padding token, that token's row gets no gradient.
    states: Tensor = model.get_input_embeddings()(token_ids[rows.distinct])
    turns = _turns(model, states, position_ids[rows.distinct])

    def layer(number: int, states: Tensor) -> Tensor:
        before, behind = _weights_of(parameters, number)
        states, query, key, value = attention_inputs(states, turns, before, shape)
        heads = tree_attention(query, key, value, rows, shape.head_size**-0.5)
        return layer_output(states, heads.flatten(1), behind, shape)

    for number in range(int(model.config.num_hidden_layers)):
        match activations:
            case Activations.KEPT:
                states = layer(number, states)
            case Activations.RECOMPUTED:
                states = checkpoint(layer, number, states, use_reentrant=False, preserve_rng_state=False)
            case _:
                assert_never(activations)
    return normed(states, parameters["model.norm.weight"], shape.norm_epsilon)


def _shape_of(config: object, parameters: Mapping[str, Tensor], dtype: torch.dtype) -> LayerShape:
    assert isinstance(config, _DenseConfig)
    num_heads = int(config.num_attention_heads)
    return LayerShape(
        num_heads=num_heads,
        num_kv_heads=int(config.num_key_value_heads or num_heads),
        head_size=len(parameters["model.layers.0.self_attn.q_proj.weight"]) // num_heads,
        norm_epsilon=float(config.rms_norm_eps),
        dtype=dtype,
    )


def _layer_names() -> set[str]:
    parts = {f"{name}.{kind}" for name in _FEED_FORWARD for kind in ("weight", "bias")}
    return {*_ATTENTION, *_ATTENTION_OPTIONS, *parts} - {"post_attention_layernorm.bias"}


def _weights_of(parameters: Mapping[str, Tensor], number: int) -> tuple[AttentionWeights, FeedForwardWeights]:
    own = f"model.layers.{number}."
    before = AttentionWeights(
        *(parameters[own + name] for name in _ATTENTION), *(parameters.get(own + name) for name in _ATTENTION_OPTIONS)
    )
    mlp = f"{own}mlp."
    behind = FeedForwardWeights(
        out=parameters[f"{own}self_attn.o_proj.weight"],
        out_bias=parameters.get(f"{own}self_attn.o_proj.bias"),
        norm=parameters[f"{own}post_attention_layernorm.weight"],
        gate=parameters[f"{mlp}gate_proj.weight"],
        up=parameters[f"{mlp}up_proj.weight"],
        down=parameters[f"{mlp}down_proj.weight"],
        gate_bias=parameters.get(f"{mlp}gate_proj.bias"),
        up_bias=parameters.get(f"{mlp}up_proj.bias"),
        down_bias=parameters.get(f"{mlp}down_proj.bias"),
    )
    return before, behind


def _turns(model: PreTrainedModel, states: Tensor, position_ids: Tensor) -> Tensor:
    """(u, 1, d / 2) complex: the model's own rotation, a number a pair."""
    with torch.no_grad():
        cos, sin = model.get_submodule("model.rotary_emb")(states, position_ids[None])
    half = cos.shape[-1] // 2
    return torch.complex(cos[0, :, :half].contiguous(), sin[0, :, :half].contiguous()).unsqueeze(1)
