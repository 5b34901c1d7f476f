"""The weights of a dense decoder, laid out for few and large products."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.engines.embedded.one_call import Matrices
from rollwright.engines.embedded.product import Product, product_of
from rollwright.engines.embedded.shapes import DenseShape

__all__ = ["DenseLayer", "DenseWeights", "lay_out", "spared"]

_Place = Callable[[Tensor, Tensor | None], Tensor]
"""Copies the first, into the second where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseLayer:
    """One layer. The weights of the norms and the scale of the scores are inside the matrices that follow them.

    So is the square root of the size that a norm is over: what comes out of `x * rsqrt(sum(x²) + size * eps)`.
    """

    qkv: Product
    """((heads + 2 kv heads) * head size, hidden)"""
    qk_norm: Tensor | None
    """(heads + kv heads, head size)"""
    out: Product
    gate_up: Product
    """(2 * intermediate, hidden)"""
    down: Product

    @property
    def is_packed(self) -> bool:
        """Whether a matrix is."""
        return any(product.is_packed for product in (self.qkv, self.out, self.gate_up, self.down))

    @property
    def matrices(self) -> Matrices:
        """All of it, where nothing is packed."""
        return Matrices(
            qkv=self.qkv.weight,
            qkv_bias=self.qkv.bias,
            qk_norm=self.qk_norm,
            out=self.out.weight,
            out_bias=self.out.bias,
            gate_up=self.gate_up.weight,
            gate_up_bias=self.gate_up.bias,
            down=self.down.weight,
            down_bias=self.down.bias,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DenseWeights:
    """All layers, with the embedding and the head."""

    embedding: Tensor
    layers: tuple[DenseLayer, ...]
    final_norm: Tensor
    head: Product
    """Where they are tied, of the embedding itself or a copy that lies turned."""

    @property
    def is_packed(self) -> bool:
        """Whether a matrix is."""
        return self.head.is_packed or any(layer.is_packed for layer in self.layers)


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
    scratch = _Scratch()
    for i in range(shape.num_layers):
        layer = _Layer(tensors, f"model.layers.{i}.", place, None if into is None else into.layers[i], scratch)
        layers.append(layer.laid_out(shape))
    final_norm = tensors["model.norm.weight"].float() * shape.hidden**0.5
    # A tied head that lies turned has memory of its own.
    own = None if into is None or into.head.plain is into.embedding else into.head.plain
    if shape.is_tied:
        head = embedding if own is None else place(embedding, own)
    else:
        head = place(tensors["lm_head.weight"], own)
    return DenseWeights(
        embedding=embedding,
        layers=tuple(layers),
        final_norm=place(final_norm, None if into is None else into.final_norm),
        head=product_of(head, None),
    )


def spared(weights: DenseWeights) -> DenseWeights:
    """What the next weights can be written into, of those that serve no more."""
    layers = [
        replace(one, qkv=one.qkv.spared(), out=one.out.spared(), gate_up=one.gate_up.spared(), down=one.down.spared())
        for one in weights.layers
    ]
    return replace(weights, layers=tuple(layers), head=weights.head.spared())


class _Scratch:
    """Memory in which matrices are joined before they are packed, one after the other."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)

    def of(self, rows: int, columns: int) -> Tensor:
        """(rows, columns) float32 on the CPU; what stood there before is gone."""
        if self._memory.numel() < rows * columns:
            self._memory = torch.empty(rows * columns)
        return self._memory[: rows * columns].view(rows, columns)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    """One layer of a checkpoint, and where it goes."""

    tensors: Mapping[str, Tensor]
    prefix: str
    place: _Place
    into: DenseLayer | None
    scratch: _Scratch

    def laid_out(self, shape: DenseShape) -> DenseLayer:
        qkv, qk_norm = self._qkv(shape)
        return DenseLayer(
            qkv=qkv,
            qk_norm=qk_norm,
            out=self._copied("self_attn.o_proj", self.into and self.into.out),
            gate_up=self._gate_up(shape),
            down=self._copied("mlp.down_proj", self.into and self.into.down),
        )

    # One after the other: what is joined in the scratch has to be packed before the next is joined there.
    def _qkv(self, shape: DenseShape) -> tuple[Product, Tensor | None]:
        names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
        old = self._room(names, self.into and self.into.qkv)
        qkv = self._joined("weight", names, old, shape.head_size)
        bias = self._joined("bias", names, None, shape.head_size)
        assert qkv is not None
        qk_norm = _scale_queries(self.tensors, shape, self.prefix, qkv, bias)
        self._take_norm(qkv, "input_layernorm", shape)
        return product_of(self._placed(qkv, old), self._moved(bias)), self._moved(qk_norm)

    def _gate_up(self, shape: DenseShape) -> Product:
        names = ("mlp.gate_proj", "mlp.up_proj")
        old = self._room(names, self.into and self.into.gate_up)
        gate_up = self._joined("weight", names, old)
        assert gate_up is not None
        self._take_norm(gate_up, "post_attention_layernorm", shape)
        return product_of(self._placed(gate_up, old), self._moved(self._joined("bias", names, None)))

    def _take_norm(self, matrix: Tensor, name: str, shape: DenseShape) -> None:
        """Put the weights of the norm before a matrix into it, in place, over what the processor still holds."""
        matrix.mul_(self.tensors[f"{self.prefix}{name}.weight"].float() * shape.hidden**0.5)

    def _room(self, names: tuple[str, ...], old: Product | None) -> Tensor | None:
        """Where the rows of several projections are joined: in what served before, or where they are only packed."""
        if old is None or not old.is_packed:
            return old and old.plain
        if old.weight.dtype != torch.float32:
            return None
        found = [self.tensors[f"{self.prefix}{name}.weight"] for name in names]
        return self.scratch.of(sum(len(one) for one in found), found[0].shape[1])

    def _copied(self, name: str, old: Product | None) -> Product:
        """One projection as it stands in the checkpoint."""
        given = self.tensors[f"{self.prefix}{name}.weight"]
        is_alike = old is not None and (given.dtype, given.device) == (old.weight.dtype, old.weight.device)
        is_only_packed = old is not None and old.is_packed and is_alike
        weight = given if is_only_packed else self.place(given, old and old.plain)
        return product_of(weight, self._moved(self._joined("bias", (name,), None)))

    def _joined(
        self, part: str, names: tuple[str, ...], old: Tensor | None, head_size: int | None = None
    ) -> Tensor | None:
        """The float32 rows of several projections, in `old` where it can hold them; None: no such part in the model.

        With a head size, those of all but the last are paired, as they are turned.
        """
        keys = [f"{self.prefix}{name}.{part}" for name in names]
        found = [self.tensors[key].float() for key in keys if key in self.tensors]
        if not found:
            return None
        size = (sum(map(len, found)), *found[0].shape[1:])
        fits = old is not None and old.dtype == torch.float32 and old.device == found[0].device
        joined = old if fits and old is not None else found[0].new_empty(size)
        if head_size is None:
            return torch.cat(found, out=joined)
        pairs = [_paired(one, head_size) for one in found[:-1]]
        torch.cat([*pairs, _split(found[-1], head_size)], out=_split(joined, head_size))
        return joined

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
    root = shape.head_size**0.5
    key = f"{prefix}self_attn.q_norm.weight"
    if key in tensors:
        # The root that the norm leaves out is the one that the scores are divided by.
        queries = tensors[key].float()
        keys = tensors[f"{prefix}self_attn.k_norm.weight"].float() * root
        paired = [_paired(one, shape.head_size).reshape(-1) for one in (queries, keys)]
        return torch.cat([paired[0].expand(shape.num_heads, -1), paired[1].expand(shape.num_kv_heads, -1)])
    rows = shape.num_heads * shape.head_size
    qkv[:rows] /= root
    if qkv_bias is not None:
        qkv_bias[:rows] /= root
    return None


def _paired(rows: Tensor, head_size: int) -> Tensor:
    """Number i and number i + size / 2 of each head as neighbors: rotary positions turn the two as one complex number.

    Queries and keys are paired alike, which changes the order of a score's sum alone.

    Args:
        rows: (heads * head size, …), as they stand in a checkpoint.
        head_size: even.

    Returns:
        (heads, head size / 2, 2, …), a view.
    """
    return rows.view(-1, 2, head_size // 2, *rows.shape[1:]).transpose(1, 2)


def _split(rows: Tensor, head_size: int) -> Tensor:
    """The same shape for rows that stay as they stand, or are paired already."""
    return rows.view(-1, head_size // 2, 2, *rows.shape[1:])
