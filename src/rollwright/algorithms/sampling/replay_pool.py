"""Verified successes of older policies, kept for another update while they are young (RLEP, RePO; M104).

A replayed rollout stands in no fresh group: its own policy sampled it, so its log-probabilities are those of then, its
ratio needs a correction with a cap, and its credit does not come from attempts of another policy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.staleness.lag import lag_of

__all__ = ["ReplayPool", "StoredRollout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRollout:
    """What the pool remembers of a rollout; tokens and log-probabilities stay where they are stored."""

    trajectory_id: str
    oldest_version: int
    """Of its tokens."""
    reward: float


class ReplayPool:
    """Bounded in size and age; a rollout is drawn at most once a batch."""

    def __init__(self, *, max_age: int, max_size: int, success_at: float = 1.0) -> None:
        """Set the bounds.

        Args:
            max_age: steps; a rollout of exactly this age is inside.
            max_size: rollouts, the newest stay.
            success_at: reward from which a rollout is a success; others are never kept.
        """
        if max_age < 0 or max_size < 1:
            raise ObjectiveError(f"max_age is {max_age} and max_size {max_size}; at least 0 and at least 1.")
        self._max_age, self._max_size, self._success_at = max_age, max_size, success_at
        self._stored: list[StoredRollout] = []

    def offer(self, rollout: StoredRollout) -> bool:
        """Keep a success; True where it was kept. A failure, an unscored rollout and a known id are not."""
        is_known = any(one.trajectory_id == rollout.trajectory_id for one in self._stored)
        if is_known or not rollout.reward >= self._success_at:
            return False
        self._stored = sorted([*self._stored, rollout], key=lambda one: (one.oldest_version, one.trajectory_id))
        self._stored = self._stored[-self._max_size :]
        return rollout in self._stored

    def young(self, learner_version: int) -> tuple[StoredRollout, ...]:
        """Those that may be replayed now, oldest first; what is too old leaves the pool."""
        self._stored = [
            one for one in self._stored if lag_of(one.oldest_version, learner_version=learner_version) <= self._max_age
        ]
        return tuple(self._stored)

    def draw(self, count: int, *, learner_version: int, generator: np.random.Generator) -> tuple[StoredRollout, ...]:
        """Up to `count` different rollouts, uniformly among those that are young enough; they stay in the pool."""
        young = self.young(learner_version)
        places = np.sort(generator.choice(len(young), min(count, len(young)), replace=False))
        return tuple(young[int(place)] for place in places)

    def state(self) -> Sequence[StoredRollout]:
        """All that is needed to go on."""
        return tuple(self._stored)

    def restore(self, state: Sequence[StoredRollout]) -> None:
        """Go on from a state that `state` gave."""
        self._stored = list(state)
