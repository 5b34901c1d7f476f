"""Turns as steps: a run of action tokens of one turn, which share one state, one reward and one worth."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.objective import CreditInputs

__all__ = ["Turns", "turns_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turns:
    """The S turns of all rows that have an action token, in order."""

    starts: Tensor
    """(S,) int64, place of each turn's first action token."""
    row_offsets: Tensor
    """(R + 1,) int64 into the turns."""
    of_token: Tensor
    """(N,) int64, the turn that each token stands in."""

    def sum_of(self, per_token: Tensor) -> Tensor:
        """(S,) sum of (N,) values over each turn."""
        return per_token.new_zeros(len(self.starts)).index_add(0, self.of_token, per_token)


def turns_of(inputs: CreditInputs) -> Turns:
    """Cut each row where its (N,) `turn_index` changes; a turn without an action token is none: its reward moved."""
    offsets, turn = inputs.row_offsets, inputs.turn_index
    is_start = torch.ones(len(turn), dtype=torch.bool)
    is_start[1:] = turn[1:] != turn[:-1]
    is_start[offsets[:-1][offsets.diff() > 0]] = True
    starts = is_start.nonzero().flatten()
    return Turns(
        starts=starts,
        row_offsets=torch.searchsorted(starts, offsets),
        of_token=is_start.cumsum(0) - 1,
    )
