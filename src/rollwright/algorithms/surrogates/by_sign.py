"""Numbers that differ by the sign of the advantage, in the type of the tensors they are used with."""

import torch
from torch import Tensor

__all__ = ["choose"]


def choose(where: Tensor, one: float, other: float, *, like: Tensor) -> Tensor:
    """`one` where (T,) bool `where` is True, else `other`; (T,) in the dtype of `like`.

    `torch.where` of two plain numbers gives float32, whatever they meet afterwards.
    """
    return torch.where(where, torch.full_like(like, one), torch.full_like(like, other))
