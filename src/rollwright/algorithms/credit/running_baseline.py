"""Credit against a running mean of earlier rewards, one per key (M02)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import (
    UNSCORED,
    broadcast_to_tokens,
    episode_shares,
    join_keys,
    rows_where,
    totals_over,
)
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import key_of

__all__ = ["RunningBaseline"]

BaselineKey = Literal["source", "task", "role"]


@dataclass(slots=True, kw_only=True, eq=False)
class RunningBaseline:
    """Reward minus an exponential mean of the rewards that came before it under the same key.

    Role-conditioned advantage (SPIRAL: arXiv:2506.24119); public: prime-rl. It works for a single attempt. Rows are
    taken in their order, which the planner makes the same whatever order they arrived in; an episode counts once, at
    its first scored row. Called, it reads its state and leaves it; `advance` takes a step in, once, after its credit.
    """

    decay: float = 0.95
    """δ in [0, 1): the part of the mean that stays at each episode."""
    initial: float = 0.0
    """The mean before the first episode of a key, verifier units."""
    by: tuple[BaselineKey, ...] = ("source",)
    """What a key is made of; its values must mean the same in every step."""
    _means: dict[str, float] = field(default_factory=dict[str, float], init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse a mean that never moves or that grows, and a key of nothing."""
        if not 0.0 <= self.decay < 1.0 or not self.by:
            raise ObjectiveError(
                f"the running baseline has decay {self.decay} and keys {self.by}; the decay lies in [0, 1) and "
                "at least one of source, task and role makes the key."
            )
        if not math.isfinite(self.initial):
            raise ObjectiveError(f"the running baseline begins at {self.initial}; it begins at a finite reward.")

    def __call__(self, inputs: CreditInputs) -> Credit:
        """Credit of a step, without taking it in.

        Args:
            inputs: rows in the planner's order; rewards (R,) float64, NaN where unscored.

        Returns:
            (N,) float64 in verifier units: R − β, β as it was before the row's episode. An unscored row gets 0 and a
            reason; one reward level is no reason here.
        """
        is_scored = ~inputs.rewards.isnan()
        baselines, _ = self._follow(inputs)
        return Credit(
            advantages=broadcast_to_tokens(torch.where(is_scored, inputs.rewards - baselines, 0.0), inputs.row_offsets),
            value_targets=None,
            untrained=dict.fromkeys(rows_where(~is_scored), UNSCORED),
        )

    def advance(self, inputs: CreditInputs) -> None:
        """Take a step in: β ← δ·β + (1 − δ)·R for each scored episode, in order."""
        _, after = self._follow(inputs)
        self._means.update(after)

    def state(self) -> Mapping[str, float]:
        """Key to mean, all that is needed to go on."""
        return dict(self._means)

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from a state that `state` gave."""
        if wrong := [key for key, mean in state.items() if mean != mean or abs(mean) == float("inf")]:
            raise ObjectiveError(f"the running baseline of {sorted(wrong)} is not finite; restore what `state` gave.")
        self._means = dict(state)

    def _follow(self, inputs: CreditInputs) -> tuple[Tensor, dict[str, float]]:
        """(R,) the mean before each row's episode, and the means behind the step by key."""
        parts = [_part_of(inputs, name) for name in self.by]
        place = join_keys(parts)
        entries = _entries(inputs, place)
        num_keys = int(place.max()) + 1 if len(place) else 0
        first = torch.full((num_keys,), len(place)).scatter_reduce(0, place, torch.arange(len(place)), "amin")
        names = ["/".join(str(int(part[row])) for part in parts) for row in first.unbind()]
        start = torch.tensor([self._means.get(name, self.initial) for name in names], dtype=torch.float64)
        before, after = _means_over(entries, start, self.decay)
        seen = torch.bincount(entries.place, minlength=num_keys) > 0
        moved = {names[key]: float(after[key]) for key in rows_where(seen)}
        return torch.where(entries.of_row >= 0, before[entries.of_row.clamp(min=0)], 0.0), moved


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entries:
    """The E scored episodes of a step, by key and then in order of their first scored row."""

    rewards: Tensor
    """(E,) float64, mean of the episode's scored rows."""
    place: Tensor
    """(E,) int64 key."""
    of_row: Tensor
    """(R,) int64 entry of each row; −1 where unscored."""


def _entries(inputs: CreditInputs, place: Tensor) -> _Entries:
    is_scored = ~inputs.rewards.isnan()
    # An episode with rows under several keys, such as roles, has one entry under each.
    episode = join_keys([inputs.episode_index, place])
    share = episode_shares(is_scored, episode)
    mean = totals_over(share * torch.where(is_scored, inputs.rewards, 0.0), episode)
    rows = torch.arange(len(place))
    num_rows = len(place)
    first = torch.full((num_rows,), num_rows).scatter_reduce(0, episode[is_scored], rows[is_scored], "amin")
    lead = first[first < num_rows].sort().values
    order = lead[place[lead].sort(stable=True).indices]
    entry_of_episode = torch.full((num_rows,), -1).index_put((episode[order],), torch.arange(len(order)))
    return _Entries(
        rewards=mean[order],
        place=place[order],
        of_row=torch.where(is_scored, entry_of_episode[episode], -1),
    )


def _means_over(entries: _Entries, start: Tensor, decay: float) -> tuple[Tensor, Tensor]:
    """(E + 1,) the mean before each entry, its last a filler, and (K,) the mean behind each key's last entry."""
    counts = torch.bincount(entries.place, minlength=len(start))
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    # The recurrence runs backward, so the stream is turned round: each key's start is its last element.
    width = offsets + torch.arange(len(offsets))
    values = torch.zeros(int(width[-1]), dtype=torch.float64)
    values[width[:-1]] = start
    at = torch.arange(len(entries.place)) + entries.place + 1
    values[at] = (1.0 - decay) * entries.rewards
    turned = backward_scan(values.flip(0), torch.full_like(values, decay), len(values) - width.flip(0)).flip(0)
    return torch.cat([turned[at - 1], turned.new_zeros(1)]), turned[width[1:] - 1]


def _part_of(inputs: CreditInputs, name: BaselineKey) -> Tensor:
    return inputs.source_index if name == "source" else key_of(inputs, name)
