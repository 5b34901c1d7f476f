"""A matrix that rows are multiplied with, in the order of memory that this processor multiplies fastest.

On x86 a matrix of at least 2 MiB is packed for oneDNN when it is laid out: with the few rows of a decode step most of
the time of a product is the reading of its matrix, and packed it is read once, in order. Below that size the call
itself costs more than it saves: such a matrix of few inputs lies turned, its outputs side by side, which with 16 to 64
rows took 0.6 to 0.85 of the time, and asks for fewer rows at least where bits must not depend on their number. In
bfloat16 every matrix is packed, since oneDNN would else do it at each call. The rule knows the size, the type and the
machine alone, so weights published later are laid out as those that the engine was opened with were, and give the same
bits.
"""

import platform
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["PACKED_BYTES", "Product", "product_of"]

PACKED_BYTES = 2 * 1024 * 1024
"""A float32 matrix of so many bytes is packed, and every matrix in bfloat16."""
TURNED_INPUTS = 512
"""Of a turned matrix at most: turned ones of 800 inputs and more had other bits with 192 rows than with fewer."""
_X86 = frozenset({"x86_64", "amd64"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Product:
    """Rows times a matrix, plus a bias."""

    weight: Tensor
    """(outputs, inputs), turned in memory where it is small; or the same packed: then nothing else can read it."""
    bias: Tensor | None
    is_packed: bool

    def __call__(self, rows: Tensor) -> Tensor:
        """(n, inputs) to (n, outputs), a new tensor."""
        if self.is_packed:
            return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return F.linear(rows, self.weight, self.bias)

    def added_to(self, sum_so_far: Tensor, rows: Tensor) -> Tensor:
        """What `__call__` gives, added to (n, outputs); the sum may take the place of what was given.

        A product that holds a bias adds it too.
        """
        if self.is_packed:
            return torch.ops.mkldnn._linear_pointwise.binary(rows, sum_so_far, self.weight, self.bias, "add")
        if self.bias is not None:
            return self(rows).add_(sum_so_far)
        return sum_so_far.addmm_(rows, self.weight.t())

    @property
    def plain(self) -> Tensor | None:
        """The matrix where it can be written into; None: it is packed."""
        return None if self.is_packed else self.weight

    def spared(self) -> "Product":
        """The same for weights that serve no more: a packed matrix, which nothing can be written into, is let go."""
        return replace(self, weight=self.weight.new_empty(0, layout=torch.strided)) if self.is_packed else self


def product_of(weight: Tensor, bias: Tensor | None) -> Product:
    """The product with a matrix that lies in the type and on the device that serve; packed or turned it is a copy."""
    if _gains_by_packing(weight):
        packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        return Product(weight=packed, bias=bias, is_packed=True)
    is_small = weight.nbytes < PACKED_BYTES and weight.shape[1] <= TURNED_INPUTS
    if weight.device.type == "cpu" and is_small and weight.is_contiguous():
        weight = weight.t().contiguous().t()
    return Product(weight=weight, bias=bias, is_packed=False)


def _gains_by_packing(weight: Tensor) -> bool:
    is_here = weight.device.type == "cpu" and platform.machine().lower() in _X86
    if not is_here or not torch.backends.mkldnn.is_available():
        return False
    if weight.dtype == torch.bfloat16:
        return torch.ops.mkldnn._is_mkldnn_bf16_supported()
    return weight.dtype == torch.float32 and weight.numel() * weight.element_size() >= PACKED_BYTES
