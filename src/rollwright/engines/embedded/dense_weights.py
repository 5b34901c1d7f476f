"""The weights of a dense decoder, laid out for few and large products."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["DenseLayer", "DenseWeights", "lay_out"]

_Place = Callable[[Tensor, Tensor | None], Tensor]
"""Copies the first, into the second where there is one."""


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
    tensors: Mapping[str, Tensor],
    shape: DenseShape,
    *,
    dtype: torch.dtype,
    device: torch.device,
    into: DenseWeights | None = None,
) -> DenseWeights:
    """Copy the tensors of a checkpoint into the layout.

    Args:
        tensors: by the names of `transformers`, complete.
        shape: of the model.
        dtype: to compute in; norms are folded in float32 before the cast.
        device: to serve from.
        into: a layout of the same model that serves no more, to be overwritten: memory that was never touched costs
            more than the copy. None takes new memory.

    Returns:
        None of its tensors is a view of what was given.
    """

    def place(tensor: Tensor, old: Tensor | None) -> Tensor:
        return tensor.to(device=device, dtype=dtype, copy=True).contiguous() if old is None else old.copy_(tensor)

    embedding = place(tensors["model.embed_tokens.weight"], None if into is None else into.embedding)
    layers: list[DenseLayer] = []
    for i in range(shape.num_layers):
        layer = _Layer(tensors, f"model.layers.{i}.", place, None if into is None else into.layers[i])
        layers.append(layer.laid_out(shape))
    return DenseWeights(
        embedding=embedding,
        layers=tuple(layers),
        final_norm=place(tensors["model.norm.weight"], None if into is None else into.final_norm),
        head=embedding if shape.is_tied else place(tensors["lm_head.weight"], None if into is None else into.head),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer of a checkpoint, and where it goes."""

    tensors: Mapping[str, Tensor]
    prefix: str
    place: _Place
    into: DenseLayer | None

    def laid_out(self, shape: DenseShape) -> DenseLayer:
        into = self.into
        attention = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        gates = ("mlp.gate_proj", "mlp.up_proj")
        qkv, qkv_bias = self._joined("weight", attention, into and into.qkv), self._joined("bias", attention, None)
        gate_up = self._joined("weight", gates, into and into.gate_up)
        assert qkv is not None and gate_up is not None
        qk_norm = _scale_queries(self.tensors, shape, self.prefix, qkv, qkv_bias)
        # In place, over what the processor still holds.
        qkv.mul_(self.tensors[f"{self.prefix}input_layernorm.weight"].float())
        gate_up.mul_(self.tensors[f"{self.prefix}post_attention_layernorm.weight"].float())
        return DenseLayer(
            qkv=self._placed(qkv, into and into.qkv),
            qkv_bias=self._moved(qkv_bias),
            qk_norm=self._moved(qk_norm),
            out=self.place(self.tensors[f"{self.prefix}self_attn.o_proj.weight"], into and into.out),
            out_bias=self._moved(self._joined("bias", ("self_attn.o_proj",), None)),
            gate_up=self._placed(gate_up, into and into.gate_up),
            gate_up_bias=self._moved(self._joined("bias", gates, None)),
            down=self.place(self.tensors[f"{self.prefix}mlp.down_proj.weight"], into and into.down),
            down_bias=self._moved(self._joined("bias", ("mlp.down_proj",), None)),
        )

    def _joined(self, part: str, names: tuple[str, ...], old: Tensor | None) -> Tensor | None:
        """The float32 rows of several projections, in `old` where it can hold them; None: no such part in the model."""
        keys = [f"{self.prefix}{name}.{part}" for name in names]
        found = [self.tensors[key].float() for key in keys if key in self.tensors]
        if not found:
            return None
        fits = old is not None and old.dtype == torch.float32 and old.device == found[0].device
        return torch.cat(found, out=old) if fits else torch.cat(found)

    def _placed(self, tensor: Tensor, old: Tensor | None) -> Tensor:
        """In the type and on the device that serve; what was joined in its place stays there."""
        return tensor if tensor is old else self.place(tensor, old)

    def _moved(self, tensor: Tensor | None) -> Tensor | None:
        """Something small."""
        return None if tensor is None else self.place(tensor, None)


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
