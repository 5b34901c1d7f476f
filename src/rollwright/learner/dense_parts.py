"""Pieces of a dense decoder's layer, forward and backward, a run of tokens at a time.

A piece is as long as a processor's cache can hold, so that what stands between two matrix products is read from there.
Everything is written into buffers that the caller owns. A norm's weight is inside the matrices behind it: `scaled_rows`
puts it there, `unscaled_gradients` takes it out of their gradients.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = [
    "Normed",
    "pieces",
    "project",
    "rotate",
    "rows_of_norm",
    "rows_of_norm_backward",
    "scaled_rows",
    "swiglu",
    "swiglu_backward",
    "unscaled_gradients",
]

CACHED_NUMBERS = 1 << 19
"""Of the widest buffer of a piece, in numbers: 2 MiB in float32."""
LEAST_PIECE = 256
"""Tokens of a piece, however wide: each of them reads all weights of a layer."""


def pieces(num_tokens: int, width: int, device: torch.device) -> list[slice]:
    """Cut tokens into runs; a function of the numbers alone.

    Args:
        num_tokens: at least one.
        width: numbers a token of the widest buffer.
        device: only a CPU's cache is minded; elsewhere all tokens are one piece.

    Returns:
        In order; whole together.
    """
    # A multiple of 64 tokens, so that every piece begins where memory is aligned: products round by alignment too.
    length = max(LEAST_PIECE, CACHED_NUMBERS // width // 64 * 64) if device.type == "cpu" else num_tokens
    return [slice(start, min(start + length, num_tokens)) for start in range(0, num_tokens, length)]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Normed:
    """States divided by their root mean square, without the norm's weight."""

    states: Tensor
    """(u, h) in the type of the products."""
    scale: Tensor
    """(u, 1) the inverse roots, in the type of the residual stream."""

    @staticmethod
    def empty(like: Tensor, num_tokens: int, dtype: torch.dtype) -> "Normed":
        """Room for so many tokens of a residual stream."""
        return Normed(
            states=like.new_empty(num_tokens, like.shape[1], dtype=dtype), scale=like.new_empty(num_tokens, 1)
        )

    def __getitem__(self, part: slice) -> "Normed":
        """A run of tokens, as views."""
        return Normed(states=self.states[part], scale=self.scale[part])


def rows_of_norm(states: Tensor, epsilon: float, into: Normed) -> None:
    """Divide each state by the root of its mean square and of epsilon.

    Args:
        states: (c, h) of the residual stream.
        epsilon: of the norm.
        into: overwritten.
    """
    length = torch.linalg.vector_norm(states, dim=1, keepdim=True)
    # One call: a mean square and epsilon as a tensor, which costs no conversion of a number.
    torch.addcmul(length.new_full((), epsilon), length, length, value=1 / states.shape[1], out=into.scale).rsqrt_()
    if into.states.dtype == states.dtype:
        torch.mul(states, into.scale, out=into.states)
    else:
        into.states.copy_(states * into.scale)


def rows_of_norm_backward(grad: Tensor, normed: Normed, into: Tensor) -> None:
    """Add the gradient of the states to that of the residual stream.

    Args:
        grad: (c, h) of the divided states.
        normed: what the forward pass made.
        into: (c, h) added to.
    """
    grad, states = grad.to(into.dtype), normed.states.to(into.dtype)
    along = torch.linalg.vecdot(grad, states).div_(states.shape[1]).unsqueeze_(1)
    into.addcmul_(grad, normed.scale)
    into.addcmul_(states, along.mul_(normed.scale), value=-1)


def scaled_rows(matrices: Sequence[Tensor], norm: Tensor, dtype: torch.dtype) -> Tensor:
    """Several matrices as one, with the weight of the norm before them in its columns.

    Args:
        matrices: (r, h) each.
        norm: (h,)
        dtype: of the products.

    Returns:
        (all rows, h), a new tensor.
    """
    joined = norm.new_empty(sum(map(len, matrices)), len(norm))
    start = 0
    for matrix in matrices:
        torch.mul(matrix, norm, out=joined[start : start + len(matrix)])
        start += len(matrix)
    return joined.to(dtype)


def unscaled_gradients(grad: Tensor, matrices: Sequence[Tensor], norm: Tensor) -> tuple[list[Tensor], Tensor]:
    """Gradients of what `scaled_rows` joined.

    Args:
        grad: (all rows, h) of the joined matrix; overwritten, the gradients of the matrices are its rows.
        matrices: (r, h) each.
        norm: (h,)

    Returns:
        Of each matrix, and (h,) of the norm's weight.
    """
    parts = list(grad.split([len(matrix) for matrix in matrices]))
    of_norm = torch.zeros_like(norm)
    for part, matrix in zip(parts, matrices, strict=True):
        of_norm.add_((part * matrix).sum(0))
    grad.mul_(norm)
    return parts, of_norm


def project(states: Tensor, matrix: Tensor, bias: Tensor | None, into: Tensor) -> None:
    """Write a linear layer's output.

    Args:
        states: (c, h)
        matrix: (r, h)
        bias: (r,) or None.
        into: (c, r) overwritten.
    """
    if bias is None:
        torch.mm(states, matrix.t(), out=into)
    else:
        torch.addmm(bias, states, matrix.t(), out=into)


def rotate(heads: Tensor, turns: Tensor, into: Tensor) -> None:
    """Turn each pair of numbers by its angle.

    Args:
        heads: (c, n, d) with the two numbers of a pair side by side, in the type of `turns`' parts.
        turns: (c, 1, d / 2) complex.
        into: (c, n, d) overwritten, of any float type; `heads` itself where the types agree.
    """
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
    if into.dtype == heads.dtype:
        torch.mul(pairs, turns, out=torch.view_as_complex(into.unflatten(-1, (-1, 2))))
    else:
        into.copy_(torch.view_as_real(pairs * turns).flatten(-2))


def swiglu(gate_up: Tensor) -> Tensor:
    """SiLU of the gate, times up.

    Args:
        gate_up: (c, 2 · i) the two beside each other.

    Returns:
        (c, i)
    """
    gate, up = gate_up.chunk(2, 1)
    return torch.nn.functional.silu(gate).mul_(up)


def swiglu_backward(grad: Tensor, gate_up: Tensor, activation: Tensor) -> None:
    """Turn gate and up into their gradients, in place.

    Args:
        grad: (c, i) of the activation; overwritten.
        gate_up: (c, 2 · i) as `swiglu` had them; overwritten by their gradients.
        activation: (c, i) overwritten by what `swiglu` gave.
    """
    gate, up = gate_up.chunk(2, 1)
    opened = torch.nn.functional.silu(gate)
    torch.mul(opened, up, out=activation)
    opened.mul_(grad)
    grad.mul_(up)
    up.copy_(opened)
    torch.ops.aten.silu_backward.grad_input(grad, gate, grad_input=gate)
