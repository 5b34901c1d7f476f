"""The weights of a dense decoder, laid out for few and large products."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["DenseLayer", "DenseWeights", "lay_out"]

_Place = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseLayer:
    """One layer. The weights of the norms and the scale of the scores are inside the matrices that follow them."""

    qkv: Tensor
    """((heads + 2 kv heads) * head size, hidden)"""
    qkv_bias: Tensor | None
    qk_norm: Tensor | None
    """(heads + kv heads, head size)"""
    out: Tensor
    out_bias: Tensor | None
    gate_up: Tensor
    """(2 * intermediate, hidden)"""
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseWeights:
    """All layers, with the embedding and the head."""

    embedding: Tensor
    layers: tuple[DenseLayer, ...]
    final_norm: Tensor
    head: Tensor
    """The embedding itself where they are tied."""


def lay_out(
    tensors: Mapping[str, Tensor], shape: DenseShape, *, dtype: torch.dtype, device: torch.device
) -> DenseWeights:
    """Copy the tensors of a checkpoint into the layout.

    Args:
        tensors: by the names of `transformers`, complete.
        shape: of the model.
        dtype: to compute in; norms are folded in float32 before the cast.
        device: to serve from.

    Returns:
        New tensors; none is a view of what was given.
    """

    def place(tensor: Tensor) -> Tensor:
        """A copy, in one pass."""
        return tensor.to(device=device, dtype=dtype, copy=True).contiguous()

    def take(tensor: Tensor) -> Tensor:
        """What is new already, and copied only to another type or device."""
        return tensor.to(device=device, dtype=dtype)

    embedding = place(tensors["model.embed_tokens.weight"])
    return DenseWeights(
        embedding=embedding,
        layers=tuple(_layer(tensors, shape, f"model.layers.{i}.", place, take) for i in range(shape.num_layers)),
        final_norm=place(tensors["model.norm.weight"]),
        head=embedding if shape.is_tied else place(tensors["lm_head.weight"]),
    )


def _layer(tensors: Mapping[str, Tensor], shape: DenseShape, prefix: str, place: _Place, take: _Place) -> DenseLayer:
    def joined(part: str, names: tuple[str, ...]) -> Tensor | None:
        """The float32 rows of several projections, or None where the model has no such part."""
        found = [tensors[key].float() for name in names if (key := f"{prefix}{name}.{part}") in tensors]
        return torch.cat(found) if found else None

    def taken(tensor: Tensor | None) -> Tensor | None:
        return None if tensor is None else take(tensor)

    attention = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    gates = ("mlp.gate_proj", "mlp.up_proj")
    qkv, qkv_bias = joined("weight", attention), joined("bias", attention)
    gate_up = joined("weight", gates)
    assert qkv is not None and gate_up is not None
    qk_norm = _scale_queries(tensors, shape, prefix, qkv, qkv_bias)
    # In place: a pass over what the cache still holds, instead of new memory.
    qkv.mul_(tensors[f"{prefix}input_layernorm.weight"].float())
    gate_up.mul_(tensors[f"{prefix}post_attention_layernorm.weight"].float())
    return DenseLayer(
        qkv=take(qkv),
        qkv_bias=taken(qkv_bias),
        qk_norm=taken(qk_norm),
        out=place(tensors[f"{prefix}self_attn.o_proj.weight"]),
        out_bias=taken(joined("bias", ("self_attn.o_proj",))),
        gate_up=take(gate_up),
        gate_up_bias=taken(joined("bias", gates)),
        down=place(tensors[f"{prefix}mlp.down_proj.weight"]),
        down_bias=taken(joined("bias", ("mlp.down_proj",))),
    )


def _scale_queries(
    tensors: Mapping[str, Tensor], shape: DenseShape, prefix: str, qkv: Tensor, qkv_bias: Tensor | None
) -> Tensor | None:
    """Put 1/sqrt(head size) on the queries: in their norm where there is one, else in the projection (in place)."""
    scale = shape.head_size**-0.5
    key = f"{prefix}self_attn.q_norm.weight"
    if key in tensors:
        queries = (tensors[key].float() * scale).expand(shape.num_heads, -1)
        keys = tensors[f"{prefix}self_attn.k_norm.weight"].float().expand(shape.num_kv_heads, -1)
        return torch.cat([queries, keys])
    rows = shape.num_heads * shape.head_size
    qkv[:rows] *= scale
    if qkv_bias is not None:
        qkv_bias[:rows] *= scale
    return None
