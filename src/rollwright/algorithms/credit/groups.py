"""What the attempts at one task say together: baseline, spread, and whether there is any contrast (rules E1, E2, E5).

An episode counts once in its group, however many rows it has: its rows share a weight of one. Unscored rows count
nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = [
    "EQUAL_REWARDS",
    "UNSCORED",
    "ZERO_CONTRAST",
    "GroupStatistics",
    "broadcast_to_tokens",
    "count_groups",
    "credit_of_rows",
    "episode_shares",
    "extremes_over",
    "group_statistics",
    "join_keys",
    "leave_out_empty_rows",
    "places_of",
    "rows_where",
    "totals_over",
    "trained_tokens",
]

UNSCORED = "unscored"
ZERO_CONTRAST = "zero_contrast"

EQUAL_REWARDS: Final = 1e-12
"""Relative range below which rewards are one level: sums of reward parts differ in the last bit (E2)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GroupStatistics:
    """Statistics of each row's group, over episodes that were scored."""

    is_scored: Tensor
    """(R,) bool"""
    num_episodes: Tensor
    """(R,) float64, scored episodes of the row's group."""
    mean: Tensor
    """(R,) float64, of the episodes' rewards; 0 where nothing is scored."""
    squares: Tensor
    """(R,) float64, sum over episodes of squared distances from the mean."""
    has_no_baseline: Tensor
    """(R,) bool, fewer than two scored episodes (E1)."""
    has_zero_variance: Tensor
    """(R,) bool, two or more scored episodes and one reward level (E2)."""

    @property
    def has_contrast(self) -> Tensor:
        """(R,) bool, the row is scored and has something to be compared with."""
        return self.is_scored & ~self.has_no_baseline & ~self.has_zero_variance


def group_statistics(inputs: CreditInputs) -> GroupStatistics:
    """Mean and spread of every group, with the tests that decide whether it teaches anything.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (R,) statistics; a group of one has no baseline, a group without a score has mean 0.
    """
    rewards = inputs.rewards
    is_scored = ~rewards.isnan()
    if infinite := rows_where(rewards.isinf()):
        raise ObjectiveError(f"rows {infinite} have infinite rewards; a reward is finite, or NaN where unscored.")
    known = torch.where(is_scored, rewards, 0.0)
    episode, group = places_of(inputs.episode_index), places_of(inputs.group_index)
    share = episode_shares(is_scored, episode)
    num_episodes = totals_over(share, group)
    mean = totals_over(share * known, group) / num_episodes.clamp(min=1.0)
    squares = totals_over(share * (known - mean).square(), group)
    has_no_baseline = num_episodes < 1.5
    low, high = extremes_over(rewards, group, is_scored, "amin"), extremes_over(rewards, group, is_scored, "amax")
    is_level = high - low <= EQUAL_REWARDS * torch.maximum(low.abs(), high.abs()).clamp(min=1.0)
    return GroupStatistics(
        is_scored=is_scored,
        num_episodes=num_episodes,
        mean=mean,
        squares=squares,
        has_no_baseline=has_no_baseline,
        has_zero_variance=is_level & ~has_no_baseline,
    )


def credit_of_rows(inputs: CreditInputs, statistics: GroupStatistics, per_row: Tensor) -> Credit:
    """Give every action token its row's advantage, and a reason to every row that has none.

    Args:
        inputs: the rows.
        statistics: of their groups.
        per_row: (R,) float64; read where the group has contrast only.

    Returns:
        Credit with advantage 0 in rows without score or contrast.
    """
    has_contrast = statistics.has_contrast
    return Credit(
        advantages=broadcast_to_tokens(torch.where(has_contrast, per_row, 0.0), inputs.row_offsets),
        value_targets=None,
        untrained={
            **dict.fromkeys(rows_where(statistics.is_scored & ~has_contrast), ZERO_CONTRAST),
            **dict.fromkeys(rows_where(~statistics.is_scored), UNSCORED),
        },
    )


def broadcast_to_tokens(per_row: Tensor, row_offsets: Tensor) -> Tensor:
    """(N,) from (R,): each row's value once a token, by row and never by axis."""
    if len(per_row) != len(row_offsets) - 1:
        raise ObjectiveError(f"{len(per_row)} values for {len(row_offsets) - 1} rows; give one a row.")
    return per_row.repeat_interleave(row_offsets.diff())


def trained_tokens(credit: Credit, row_offsets: Tensor) -> Tensor:
    """(N,) bool: tokens of the rows to which the credit gave no reason against training them."""
    is_trained = torch.ones(len(row_offsets) - 1, dtype=torch.bool)
    is_trained[list(credit.untrained)] = False
    return broadcast_to_tokens(is_trained, row_offsets)


def rows_where(mask: Tensor) -> list[int]:
    """The places where (R,) bool `mask` is True, in order."""
    return [int(row) for row in mask.nonzero().flatten().unbind()]


def places_of(index: Tensor) -> Tensor:
    """(R,) int64 places 0, 1, … of the distinct values of (R,) `index`, in order of value."""
    distinct = index.sort().values
    is_first = torch.ones_like(distinct, dtype=torch.bool)
    is_first[1:] = distinct.diff() != 0
    return torch.searchsorted(distinct[is_first], index)


def count_groups(index: Tensor) -> int:
    """The number of distinct values of (R,) `index`."""
    return int(places_of(index).max()) + 1 if len(index) else 0


def join_keys(keys: Sequence[Tensor]) -> Tensor:
    """(R,) int64 places of the distinct combinations of one or more (R,) int64 keys."""
    joined = places_of(keys[0])
    for key in keys[1:]:
        place = places_of(key)
        width = int(place.max()) + 1 if len(place) else 1
        joined = places_of(joined * width + place)
    return joined


def leave_out_empty_rows(inputs: CreditInputs) -> GroupStatistics:
    """`group_statistics` in which a row without action tokens counts nowhere, nor in the tests of E1 and E2 (E3).

    Args:
        inputs: rows of whole groups.

    Returns:
        The statistics; `is_scored` is as in the inputs, so that an empty row is not taken for an unscored one.
    """
    has_tokens = inputs.row_offsets.diff() > 0
    counted = group_statistics(replace(inputs, rewards=torch.where(has_tokens, inputs.rewards, torch.nan)))
    return replace(counted, is_scored=~inputs.rewards.isnan())


def episode_shares(is_counted: Tensor, episode: Tensor) -> Tensor:
    """(R,) float64 shares that add up to one over the counted rows of each episode; 0 where not counted.

    `episode` (R,) int64 are places, as `places_of` gives them.
    """
    counted = is_counted.to(torch.float64)
    return counted / totals_over(counted, episode).clamp(min=1.0)


def totals_over(values: Tensor, place: Tensor) -> Tensor:
    """(R,) float64: the sum of (R,) `values` over the rows of the same (R,) int64 place."""
    return values.new_zeros(len(values)).index_add(0, place, values)[place]


def extremes_over(rewards: Tensor, group: Tensor, is_scored: Tensor, which: Literal["amin", "amax"]) -> Tensor:
    """(R,) lowest (amin) or highest (amax) scored reward of the row's group; 0 where nothing is scored."""
    empty = rewards.new_zeros(len(rewards))
    return empty.scatter_reduce(0, group[is_scored], rewards[is_scored], which, include_self=False)[group]
