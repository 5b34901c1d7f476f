"""Rewards that stand where nothing was acted: each moves to an action token, in every method (E7)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.rows import row_of_tokens

__all__ = ["MovedRewards", "move_to_actions"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MovedRewards:
    """Rewards on the way, as `CreditInputs` hold them."""

    step_rewards: Tensor
    """(N,) float64, on action tokens alone."""
    num_moved: int
    """Rewards other than 0 that stood elsewhere (`rewards_moved`), those of rows without action tokens left out."""


def move_to_actions(rewards: Tensor, action_mask: Tensor, row_offsets: Tensor) -> MovedRewards:
    """Move each reward to the last action token of its row up to it; with none before it, to the first after it.

    Args:
        rewards: (T,) float64, verifier units; 0 where none.
        action_mask: (T,) bool.
        row_offsets: (rows + 1,) int64.

    Returns:
        (N,) float64 over the N action tokens. A row without any loses its rewards (E3).
    """
    if rewards.shape != action_mask.shape or int(row_offsets[-1]) != len(rewards):
        raise ObjectiveError(
            f"{len(rewards)} rewards have a mask of {len(action_mask)} tokens and rows that end at "
            f"{int(row_offsets[-1])}; all three are over the same tokens."
        )
    exact = rewards.to(torch.float64)
    row = row_of_tokens(row_offsets)
    count = torch.cat([row_offsets.new_zeros(1), action_mask.to(torch.int64).cumsum(0)])
    first, last = count[row_offsets[:-1]][row], count[row_offsets[1:]][row]
    place = torch.maximum(count[1:] - 1, first)
    has_place = (last > first) & (exact != 0)
    return MovedRewards(
        step_rewards=exact.new_zeros(int(count[-1])).index_add(0, place[has_place], exact[has_place]),
        num_moved=int((has_place & ~action_mask).sum()),
    )
