"""Every episode weighs the same, however many rows it spawned (M17)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import count_groups, places_of
from rollwright.algorithms.denominators.plain import counted_rows, reciprocal, spread_over_tokens
from rollwright.algorithms.objective import Counting, CreditInputs, RowLengths

__all__ = ["EqualSiblings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualSiblings:
    """Every episode weighs 1/E, shared evenly by its rows with tokens and then by their tokens (M17; derived here).

    A rollout that spawns more sub-agents, or is compacted into more segments, has no more mass than one that does not.
    """

    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "equal_siblings"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/(E·S_e·n_i); S_e counts the episode's rows with tokens, E episodes with such a row."""
        rows = counted_rows(self, inputs, keep)
        place = places_of(rows.episode_index)
        has_tokens = (rows.num_tokens > 0).to(torch.int64)
        siblings = torch.zeros_like(place).index_add(0, place, has_tokens)[place]
        return spread_over_tokens(inputs, keep, reciprocal(rows.num_tokens * siblings * _num_episodes(rows)))

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without tokens."""
        return 1.0 if _num_episodes(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """E, episodes with a trained token."""
        return float(_num_episodes(rows))


def _num_episodes(rows: RowLengths) -> int:
    return count_groups(rows.episode_index[rows.num_tokens > 0])
