"""Several ranks that train one model: each takes rows of the same plan, and what they made is summed, never averaged.

Weights of tokens are made on the whole update before it is cut, so a sum of gradients is the gradient.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed
from torch.nn import Parameter

from rollwright.batches.balancing import balanced_groups
from rollwright.batches.layout import UpdatePlan

__all__ = ["num_ranks", "own_share", "sum_array", "sum_gradients"]

Number = TypeVar("Number", bound=np.generic)


def num_ranks() -> int:
    """Processes that train together; 1 where torch.distributed was not started."""
    return distributed.get_world_size() if _is_started() else 1


def own_share(plan: UpdatePlan) -> UpdatePlan:
    """The same plan with this rank's rows alone: about as many tokens as any has, whole groups where that allows it.

    The weights stay those of all rows.
    """
    size = num_ranks()
    if size == 1:
        return plan
    rows = list(plan.rows)
    lengths, groups = np.diff(plan.batch.row_offsets)[rows].tolist(), plan.batch.facts.group_index[rows].tolist()
    own = balanced_groups(lengths, groups, size)[distributed.get_rank()]
    return replace(plan, rows=tuple(plan.rows[place] for place in own))


def sum_gradients(parameters: Sequence[Parameter]) -> None:
    """Give every rank the sum of all ranks' gradients; a rank without rows adds zeros and enters all the same."""
    if num_ranks() == 1:
        return
    flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in parameters])
    distributed.all_reduce(flat)
    start = 0
    for parameter in parameters:
        parameter.grad = flat[start : start + parameter.numel()].view_as(parameter).clone()
        start += parameter.numel()


def sum_array(array: NDArray[Number], device: torch.device) -> NDArray[Number]:
    """Element-wise sum over ranks, equal on each of them; a token is computed by one rank, the others hold 0.

    Args:
        array: the same shape and type on every rank.
        device: where the process group's back-end works.

    Returns:
        The array itself where there is one rank.
    """
    if num_ranks() == 1:
        return array
    tensor: Tensor = torch.from_numpy(array.copy()).to(device)
    distributed.all_reduce(tensor)
    return tensor.cpu().numpy()


def _is_started() -> bool:
    return distributed.is_available() and distributed.is_initialized()
