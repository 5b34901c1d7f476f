"""A dense decoder's layer as two differentiable functions, with attention between them.

    states ──norm, q k v, their norms, rotation──► query, key, value ──attention──► heads
       └──────────────────────────────────────────────────────────────────────────► + output ──norm, SwiGLU──► + states

Backward passes are by hand: what one needs and another pass over memory would make again is kept, what is cheap is made
again, and the gradient of the residual stream is one buffer that every part adds to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rollwright.learner.dense_parts import (
    Normed,
    pieces,
    project,
    rotate,
    rows_of_norm,
    rows_of_norm_backward,
    scaled_rows,
    swiglu,
    swiglu_backward,
    unscaled_gradients,
)

__all__ = [
    "AttentionWeights",
    "FeedForwardWeights",
    "Heads",
    "LayerShape",
    "attention_inputs",
    "layer_output",
    "normed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerShape:
    """The numbers that a layer's tensors do not tell."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    norm_epsilon: float
    dtype: torch.dtype
    """Of the products; the residual stream and all gradients of weights have the weights' own."""

    @property
    def num_rotated(self) -> int:
        """Heads of queries and keys."""
        return self.num_heads + self.num_kv_heads

    @property
    def rotated_rows(self) -> int:
        """Rows of the matrices that make queries and keys."""
        return self.num_rotated * self.head_size


class AttentionWeights(NamedTuple):
    """What stands before attention; None where the family has no such part."""

    norm: Tensor
    query: Tensor
    key: Tensor
    value: Tensor
    query_bias: Tensor | None
    key_bias: Tensor | None
    value_bias: Tensor | None
    query_norm: Tensor | None
    key_norm: Tensor | None


class FeedForwardWeights(NamedTuple):
    """What stands behind attention."""

    out: Tensor
    out_bias: Tensor | None
    norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor
    gate_bias: Tensor | None
    up_bias: Tensor | None
    down_bias: Tensor | None


class Heads(NamedTuple):
    """The inputs of attention, and the residual stream to go on with."""

    states: Tensor
    query: Tensor
    key: Tensor
    value: Tensor


def attention_inputs(states: Tensor, turns: Tensor, weights: AttentionWeights, shape: LayerShape) -> Heads:
    """Queries, keys and values of a layer, the first two rotated.

    Args:
        states: (u, h) the residual stream.
        turns: (u, 1, d / 2) complex, the rotation of each token.
        weights: of the layer.
        shape: of the layer.

    Returns:
        (u, H, d), (u, K, d) and (u, K, d). The numbers of a head are in another order than the model's own, the same
        for queries and keys, so that their products are the same. Take the residual stream from here: its gradient is
        then one buffer.
    """
    return Heads(*_AttentionInputs.apply(shape, states, turns, *weights))


def layer_output(states: Tensor, heads: Tensor, weights: FeedForwardWeights, shape: LayerShape) -> Tensor:
    """The residual stream behind a layer.

    Args:
        states: (u, h) the residual stream before it.
        heads: (u, H · d) what attention gave.
        weights: of the layer.
        shape: of the layer.

    Returns:
        (u, h)
    """
    return _LayerOutput.apply(shape, torch.is_grad_enabled(), states, heads, *weights)


def normed(states: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    """The last norm: (u, h) of the residual stream, times (h,) its weight."""
    return _Norm.apply(states, weight, epsilon)


class _AttentionInputs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        shape: LayerShape,
        states: Tensor,
        turns: Tensor,
        *parameters: Tensor | None,
    ) -> tuple[Tensor, ...]:
        weights = AttentionWeights(*parameters)  # pyright: ignore[reportArgumentType] - as they were handed over
        matrix, bias = _joined(weights, shape)
        projected = states.new_empty(len(states), len(matrix), dtype=shape.dtype)
        rotated = states.new_empty(len(states), shape.num_rotated, shape.head_size, dtype=shape.dtype)
        kept = Normed.empty(states, len(states), shape.dtype)
        head_norm = _head_norm(weights, shape)
        scales = None if head_norm is None else states.new_empty(len(states), shape.num_rotated, 1)
        for part in pieces(len(states), len(matrix), states.device):
            rows_of_norm(states[part], shape.norm_epsilon, kept[part])
            project(kept.states[part], matrix, bias, projected[part])
            heads = projected[part, : shape.rotated_rows].unflatten(1, (-1, shape.head_size)).to(states.dtype)
            if head_norm is not None and scales is not None:
                heads = _normed_heads(heads, shape.norm_epsilon, scales[part]).mul_(head_norm)
            rotate(heads, turns[part], rotated[part])
        value = projected[:, shape.rotated_rows :].unflatten(1, (-1, shape.head_size))
        ctx.shape = shape
        raw = None if head_norm is None else projected
        ctx.save_for_backward(matrix, kept.states, kept.scale, raw, scales, head_norm, turns, *weights)
        return states.view_as(states), rotated[:, : shape.num_heads], rotated[:, shape.num_heads :], value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        shape: LayerShape = ctx.shape
        matrix, kept_states, kept_scale, raw, scales, head_norm, turns, *parameters = ctx.saved_tensors
        weights, of_states = AttentionWeights(*parameters), grads[0]
        kept = Normed(states=kept_states, scale=kept_scale)
        of_projected = matrix.new_empty(len(of_states), len(matrix))
        of_head_norm = None if head_norm is None else torch.zeros_like(head_norm)
        back, rows = turns.conj().resolve_conj(), shape.rotated_rows
        for part in pieces(len(of_states), len(matrix), of_states.device):
            of_heads = torch.cat([grads[1][part], grads[2][part]], 1).to(of_states.dtype)
            into = of_projected[part, :rows].unflatten(1, (-1, shape.head_size))
            if head_norm is None or of_head_norm is None:
                rotate(of_heads, back[part], into)
            else:
                rotate(of_heads, back[part], of_heads)
                heads = raw[part, :rows].unflatten(1, (-1, shape.head_size)).to(of_states.dtype)
                into.copy_(_normed_heads_backward(of_heads, heads, scales[part], head_norm, of_head_norm))
            of_projected[part, rows:].unflatten(1, (-1, shape.head_size)).copy_(grads[3][part])
            if ctx.needs_input_grad[1]:
                rows_of_norm_backward(of_projected[part] @ matrix, kept[part], of_states[part])
        of_weights = dict[str, Tensor]()
        if any(ctx.needs_input_grad[3:]):
            of_weights = _attention_gradients(of_projected, of_head_norm, kept.states, weights, shape)
        return None, of_states, None, *_in_order(of_weights, weights)


class _LayerOutput(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's context
        shape: LayerShape,
        keeps: bool,  # noqa: FBT001 - autograd hands over what it is given; without a gradient nothing is kept
        states: Tensor,
        heads: Tensor,
        *parameters: Tensor | None,
    ) -> Tensor:
        weights = FeedForwardWeights(*parameters)  # pyright: ignore[reportArgumentType] - as they were handed over
        gate_up_weight = scaled_rows((weights.gate, weights.up), weights.norm, shape.dtype)
        out, down = weights.out.to(shape.dtype), weights.down.to(shape.dtype)
        gate_up_bias = _joined_biases((weights.gate_bias, weights.up_bias), shape.dtype)
        result = torch.empty_like(states)
        parts = pieces(len(states), len(gate_up_weight), states.device)
        room = len(states) if keeps else parts[0].stop
        kept = Normed.empty(states, room, shape.dtype)
        gate_up = states.new_empty(room, len(gate_up_weight), dtype=shape.dtype)
        for part in parts:
            place = part if keeps else slice(0, part.stop - part.start)
            _add_product(states[part], heads[part], out, weights.out_bias, result[part])
            rows_of_norm(result[part], shape.norm_epsilon, kept[place])
            project(kept.states[place], gate_up_weight, gate_up_bias, gate_up[place])
            _add_product(result[part], swiglu(gate_up[place]), down, weights.down_bias, result[part])
        if keeps:
            ctx.save_for_backward(heads, kept.states, kept.scale, gate_up, gate_up_weight, *weights)
        ctx.shape = shape
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        heads, kept_states, kept_scale, gate_up, gate_up_weight, *parameters = ctx.saved_tensors
        weights, dtype = FeedForwardWeights(*parameters), ctx.shape.dtype
        kept = Normed(states=kept_states, scale=kept_scale)
        out, down = weights.out.to(dtype), weights.down.to(dtype)
        of_result = grads[0].contiguous()
        # A buffer of its own, which the layer's other half adds to: the one that came in may be another's.
        of_states, of_heads = of_result.clone(), torch.empty_like(heads)
        of_products = of_result.to(dtype)
        activation = gate_up.new_empty(len(gate_up), gate_up.shape[1] // 2)
        for part in pieces(len(heads), len(gate_up_weight), heads.device):
            swiglu_backward(of_products[part] @ down, gate_up[part], activation[part])
            rows_of_norm_backward(gate_up[part] @ gate_up_weight, kept[part], of_states[part])
            torch.mm(of_states[part].to(dtype), out, out=of_heads[part])
        needed = FeedForwardWeights(*ctx.needs_input_grad[4:])
        of_weights = dict[str, Tensor]()
        if needed.out or needed.out_bias:
            of_weights["out"] = _product_gradient(of_states.to(dtype), heads, weights.out)
            of_weights["out_bias"] = of_states.sum(0)
        if needed.down or needed.down_bias:
            of_weights["down"] = _product_gradient(of_products, activation, weights.down)
            of_weights["down_bias"] = of_result.sum(0)
        if any((needed.norm, needed.gate, needed.up, needed.gate_bias, needed.up_bias)):
            of_weights |= _gate_up_gradients(gate_up, kept.states, weights)
        return None, None, of_states, of_heads, *_in_order(of_weights, weights)


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, states: Tensor, weight: Tensor, epsilon: float) -> Tensor:  # noqa: ANN401 - torch's context
        kept = Normed.empty(states, len(states), states.dtype)
        result = torch.empty_like(states)
        for part in pieces(len(states), states.shape[1], states.device):
            rows_of_norm(states[part], epsilon, kept[part])
            torch.mul(kept.states[part], weight, out=result[part])
        ctx.save_for_backward(kept.states, kept.scale, weight)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401 - torch's context
        kept_states, kept_scale, weight = ctx.saved_tensors
        kept = Normed(states=kept_states, scale=kept_scale)
        of_states, of_weight = torch.zeros_like(kept_states), torch.zeros_like(weight)
        for part in pieces(len(kept_states), kept_states.shape[1], kept_states.device):
            of_weight.add_((grads[0][part] * kept_states[part]).sum(0))
            rows_of_norm_backward(grads[0][part] * weight, kept[part], of_states[part])
        return of_states, of_weight, None


def _joined(weights: AttentionWeights, shape: LayerShape) -> tuple[Tensor, Tensor | None]:
    """The matrix and bias that make queries, keys and values at once, the two numbers of a rotated pair together."""
    matrix = scaled_rows((weights.query, weights.key, weights.value), weights.norm, shape.dtype)
    bias = _joined_biases((weights.query_bias, weights.key_bias, weights.value_bias), shape.dtype)
    for tensor in (matrix, bias):
        if tensor is not None:
            rotated = tensor[: shape.rotated_rows]
            rotated.copy_(_paired(rotated.unflatten(0, (shape.num_rotated, -1))).flatten(0, 1))
    return matrix, bias


def _joined_biases(biases: Sequence[Tensor | None], dtype: torch.dtype) -> Tensor | None:
    given = [bias for bias in biases if bias is not None]
    return torch.cat(given).to(dtype) if given else None


def _paired(heads: Tensor) -> Tensor:
    """(n, d, …) with number i beside number i + d / 2, which the model's rotation turns with it."""
    return heads.unflatten(1, (2, -1)).transpose(1, 2).flatten(1, 2)


def _unpaired(heads: Tensor) -> Tensor:
    """What `_paired` put in order, as the model has it."""
    return heads.unflatten(1, (-1, 2)).transpose(1, 2).flatten(1, 2)


def _head_norm(weights: AttentionWeights, shape: LayerShape) -> Tensor | None:
    """(n, d) the norm's weight of each rotated head, paired."""
    if weights.query_norm is None or weights.key_norm is None:
        return None
    queries, keys = weights.query_norm.expand(shape.num_heads, -1), weights.key_norm.expand(shape.num_kv_heads, -1)
    return _paired(torch.cat([queries, keys]))


def _normed_heads(heads: Tensor, epsilon: float, scales: Tensor) -> Tensor:
    """(c, n, d) heads, each divided by its root mean square; the inverse roots are written to `scales` (c, n, 1)."""
    length = torch.linalg.vector_norm(heads, dim=-1, keepdim=True)
    torch.rsqrt(length.square_().div_(heads.shape[-1]).add_(epsilon), out=scales)
    return heads * scales


def _normed_heads_backward(
    grad: Tensor, heads: Tensor, scales: Tensor, head_norm: Tensor, of_head_norm: Tensor
) -> Tensor:
    """(c, n, d) gradient of raw heads, in the memory of `grad`; `of_head_norm` (n, d) is added to."""
    heads = heads * scales
    along = grad * heads
    of_head_norm.add_(along.sum(0))
    share = along.mul_(head_norm).sum(-1, keepdim=True).div_(heads.shape[-1])
    return grad.mul_(head_norm).addcmul_(heads, share, value=-1).mul_(scales)


def _add_product(base: Tensor, states: Tensor, matrix: Tensor, bias: Tensor | None, into: Tensor) -> None:
    """Write base + states · matrixᵀ + bias; `into` may be `base`."""
    if states.dtype == into.dtype:
        if into.data_ptr() != base.data_ptr():
            into.copy_(base)
        into.addmm_(states, matrix.t())
    else:
        torch.add(base, states @ matrix.t(), out=into)
    if bias is not None:
        into.add_(bias)


def _product_gradient(grad: Tensor, states: Tensor, weight: Tensor) -> Tensor:
    """Of a weight whose product with `states` has the gradient `grad`, in the weight's type."""
    return (grad.t() @ states).to(weight.dtype)


def _attention_gradients(
    of_projected: Tensor, of_head_norm: Tensor | None, states: Tensor, weights: AttentionWeights, shape: LayerShape
) -> dict[str, Tensor]:
    """By name, of every part before attention that the layer has."""
    of_matrix, of_bias = _product_gradient(of_projected, states, weights.norm), None
    if weights.query_bias is not None:
        of_bias = of_projected.sum(0, dtype=weights.norm.dtype)
    for tensor in (of_matrix, of_bias):
        if tensor is not None:
            rotated = tensor[: shape.rotated_rows]
            rotated.copy_(_unpaired(rotated.unflatten(0, (shape.num_rotated, -1))).flatten(0, 1))
    matrices = (weights.query, weights.key, weights.value)
    parts, of_norm = unscaled_gradients(of_matrix, matrices, weights.norm)
    found = {"norm": of_norm, "query": parts[0], "key": parts[1], "value": parts[2]}
    if of_bias is not None:
        biases = of_bias.split([len(matrix) for matrix in matrices])
        found |= zip(("query_bias", "key_bias", "value_bias"), biases, strict=True)
    if of_head_norm is not None:
        of_queries, of_keys = _unpaired(of_head_norm).split([shape.num_heads, shape.num_kv_heads])
        found |= {"query_norm": of_queries.sum(0), "key_norm": of_keys.sum(0)}
    return found


def _gate_up_gradients(of_gate_up: Tensor, states: Tensor, weights: FeedForwardWeights) -> dict[str, Tensor]:
    """By name, of the norm and the two matrices behind it, with their biases."""
    of_matrix = _product_gradient(of_gate_up, states, weights.norm)
    (of_gate, of_up), of_norm = unscaled_gradients(of_matrix, (weights.gate, weights.up), weights.norm)
    found = {"norm": of_norm, "gate": of_gate, "up": of_up}
    if weights.gate_bias is not None:
        found |= zip(("gate_bias", "up_bias"), of_gate_up.sum(0, dtype=weights.norm.dtype).chunk(2), strict=True)
    return found


def _in_order(
    gradients: Mapping[str, Tensor], weights: AttentionWeights | FeedForwardWeights
) -> tuple[Tensor | None, ...]:
    """As autograd wants them: one a parameter, in the order of the forward pass."""
    given = weights._asdict()
    return tuple(None if given[name] is None else gradients.get(name) for name in weights._fields)
