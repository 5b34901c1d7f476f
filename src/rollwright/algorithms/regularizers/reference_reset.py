"""A reference that follows the policy: reset at a boundary, or mixed at a rhythm (M93).

After a reset, steps before and after are not comparable: the KL restarts at 0, and so does the optimizer.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["ReferenceSync", "cleared_moments", "mix_reference"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSync:
    """When the reference moves, and how far: f ← share·θ + (1 − share)·f (public code: TRL)."""

    every: int = 512
    """Updates."""
    share: float = 0.6
    """Of the policy; 1 is a reset (ProRL: arXiv:2505.24864)."""

    def __post_init__(self) -> None:
        """Refuse a rhythm or a share that moves nothing."""
        if self.every < 1 or not 0.0 < self.share <= 1.0:
            raise ObjectiveError(
                f"the reference moves every {self.every} updates by a share of {self.share}; every is at least 1, the "
                "share in (0, 1]."
            )

    def is_due(self, update: int) -> bool:
        """Whether it moves after the update of this number, counted from 1."""
        return update >= 1 and update % self.every == 0


def mix_reference(
    reference: Mapping[str, Tensor], policy: Mapping[str, Tensor], *, share: float
) -> Mapping[str, Tensor]:
    """Mix by name, f ← share·θ + (1 − share)·f; a share of 1 gives the policy's own bits.

    Args:
        reference: name to weight.
        policy: name to weight; the same names and shapes.
        share: of the policy, in [0, 1].

    Returns:
        New tensors, detached, in the reference's types.
    """
    if not 0.0 <= share <= 1.0:
        raise ObjectiveError(f"the share of the policy in the reference is {share}; it lies between 0 and 1.")
    shapes = {name: tensor.shape for name, tensor in reference.items()}
    if shapes != {name: tensor.shape for name, tensor in policy.items()}:
        raise ObjectiveError("reference and policy differ in the names or shapes of their weights; mix equal models.")
    return {name: _mixed(tensor, policy[name].detach(), share) for name, tensor in reference.items()}


def cleared_moments(moments: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The optimizer's moments after a reset: zeros, by name."""
    return {name: torch.zeros_like(tensor) for name, tensor in moments.items()}


def _mixed(reference: Tensor, policy: Tensor, share: float) -> Tensor:
    if share == 1.0:
        return policy.to(reference.dtype).clone()
    return share * policy.to(reference.dtype) + (1.0 - share) * reference.detach()
