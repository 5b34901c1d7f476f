"""Filling a batch with groups that have contrast, and saying what was seen before the filter (DAPO, M94).

    proposed groups ─► outcomes counted ─► contrast? ─► batch ─► full: train, carry the rest over
                                                  └─► not full: sample more, at most `max_rounds` times

The class holds no loop and starts nothing: whoever samples asks `to_sample`, adds what came, and closes the batch.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from rollwright.algorithms.credit.groups import EQUAL_REWARDS
from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["AtCap", "DynamicBatch", "FilledBatch", "ProposedGroup", "groups_to_sample"]

AtCap = Literal["smaller", "best_available", "refuse"]
"""What is trained when the rounds are used up: what has contrast, that and dead groups up to the target, or nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedGroup:
    """Outcomes of all attempts of one dispatch."""

    group_id: int
    source: str
    rewards: tuple[float, ...]
    """Verifier units, NaN where unscored."""

    @property
    def scored(self) -> tuple[float, ...]:
        """Rewards that are numbers."""
        return tuple(reward for reward in self.rewards if not math.isnan(reward))

    @property
    def has_contrast(self) -> bool:
        """Two scored attempts or more, of more than one reward level by range (E1, E2, E5)."""
        known = self.scored
        if len(known) < 2:
            return False
        low, high = min(known), max(known)
        return high - low > EQUAL_REWARDS * max(1.0, abs(low), abs(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledBatch:
    """What is trained, what waits for the next batch, and what was seen."""

    groups: tuple[ProposedGroup, ...]
    carried: tuple[ProposedGroup, ...]
    """Groups with contrast beyond the target."""
    rounds: int
    """Of sampling, that this batch took; an optimizer update is one, whatever their number."""
    seen: tuple[Diagnostic, ...]
    """Of every proposed group, before the filter."""


class DynamicBatch:
    """One batch while it is filled; the next begins with what this one carries over."""

    def __init__(self, *, target: int, max_rounds: int, carried: Sequence[ProposedGroup] = ()) -> None:
        """Start with what the last batch left.

        Args:
            target: groups of a full batch.
            max_rounds: of sampling; an all-solved set of tasks must not loop for ever.
            carried: groups with contrast that an earlier batch could not take; they were counted there.
        """
        if target < 1 or max_rounds < 1:
            raise ObjectiveError(f"target is {target} and max_rounds {max_rounds}; both are at least 1.")
        self._target, self._max_rounds, self._rounds = target, max_rounds, 0
        self._kept = list(carried)
        self._proposed: list[ProposedGroup] = []

    @property
    def missing(self) -> int:
        """Groups with contrast that the batch still needs; 0 once it is full or the rounds are used up."""
        return 0 if self._rounds >= self._max_rounds else max(0, self._target - len(self._kept))

    def add(self, groups: Sequence[ProposedGroup]) -> None:
        """Take the groups of one round of sampling, dead ones included."""
        if self._rounds >= self._max_rounds:
            raise ObjectiveError(f"round {self._rounds + 1} of at most {self._max_rounds}; close the batch.")
        self._rounds += 1
        self._proposed += groups
        self._kept += [group for group in groups if group.has_contrast]

    def close(self, *, at_cap: AtCap, success_at: float = 1.0) -> FilledBatch:
        """The batch as it is.

        Args:
            at_cap: what happens where groups are missing.
            success_at: reward from which an attempt is right, for the shares of all right and all wrong.

        Returns:
            The batch; under `refuse` a short one is an error with what was seen.
        """
        groups = self._kept[: self._target]
        if len(groups) < self._target and at_cap == "refuse":
            levels = sorted({reward for group in self._proposed for reward in group.scored})
            raise ObjectiveError(
                f"kept {len(self._kept)} of {self._target} groups, seen {len(self._proposed)} in {self._rounds} "
                f"rounds; rewards are {levels[:20]}. Choose other tasks, more rounds, or a smaller batch."
            )
        if at_cap == "best_available":
            dead = [group for group in self._proposed if not group.has_contrast]
            groups = [*groups, *dead][: self._target]
        return FilledBatch(
            groups=tuple(groups),
            carried=tuple(self._kept[self._target :]),
            rounds=self._rounds,
            seen=(*_shares(self._proposed, success_at), *_counts(self._proposed)),
        )


def groups_to_sample(missing: int, *, informative_share: float, most: int) -> int:
    """⌈missing/share⌉ groups, at most `most`: the sampling rate follows the share that had contrast (form ours).

    Args:
        missing: groups with contrast that are needed.
        informative_share: of the groups sampled so far, in [0, 1]; 0 asks for the most.
        most: groups of one round.
    """
    if missing < 0 or most < 0 or not 0 <= informative_share <= 1:
        raise ObjectiveError(f"{missing} missing of at most {most} at share {informative_share}; a share is in [0, 1].")
    return min(most, math.ceil(missing / informative_share)) if informative_share > 0 else most * (missing > 0)


def _shares(proposed: Sequence[ProposedGroup], success_at: float) -> tuple[Diagnostic, ...]:
    scored = [group for group in proposed if group.scored]
    level = [group for group in scored if len(group.scored) > 1 and not group.has_contrast]
    right = [group for group in level if group.scored[0] >= success_at]
    counts = {
        "reward/zero_var_frac": len(level),
        "reward/all_right": len(right),
        "reward/all_wrong": len(level) - len(right),
    }
    rewards = [reward for group in scored for reward in group.scored]
    return (
        *(
            Diagnostic(name=name, value=count / len(scored) if scored else None, unit="fraction", num_items=len(scored))
            for name, count in counts.items()
        ),
        Diagnostic(
            name="reward/total",
            value=float(np.mean(rewards)) if rewards else None,
            unit="reward",
            num_items=len(rewards),
            labels={"when": "before_filter"},
        ),
    )


def _counts(proposed: Sequence[ProposedGroup]) -> tuple[Diagnostic, ...]:
    """Groups proposed, accepted and filtered, by source."""
    found: list[Diagnostic] = []
    for source in sorted({group.source for group in proposed}):
        here = [group for group in proposed if group.source == source]
        accepted = sum(group.has_contrast for group in here)
        for name, count in (("proposed", len(here)), ("accepted", accepted), ("filtered", len(here) - accepted)):
            found.append(
                Diagnostic(
                    name=f"data/{name}",
                    value=float(count),
                    unit="groups",
                    num_items=len(here),
                    labels={"source": source},
                )
            )
    return tuple(found)
