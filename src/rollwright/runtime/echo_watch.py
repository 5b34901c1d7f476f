"""Watches for the echo trap: a policy says the same again and again within its episodes, and rewards stop differing.

Each of the two alone may be well: a game may ask for equal moves, and a world that is solved pays everyone. Together
they say that nothing is explored and nothing can be learned (RAGEN, arXiv:2504.20073). The watch knows what it has seen
since the process began; a run that goes on begins a new one.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rollwright.record import ScoredTrajectory
from rollwright.statistics import repeated_share

__all__ = ["EchoWatch"]

_WINDOW = 5
"""Steps that are taken together."""


@dataclass(slots=True, eq=False)
class EchoWatch:
    """One run's repetition and spread of rewards; the alarm is raised once, and again only after it has gone."""

    repeated_at: float = 0.5
    """Share of turns that equal an earlier one of their episode, from which a policy repeats itself."""
    collapsed_at: float = 0.25
    """Spread of rewards within a group, as a share of the most that there was, down to which it has collapsed."""
    least_spread: float = 1e-3
    """Most spread below which there was nothing to lose, in units of the reward."""
    _recent: deque[tuple[float, float]] = field(default_factory=lambda: deque[tuple[float, float]](maxlen=_WINDOW))
    _most_spread: float = 0.0
    _is_raised: bool = False

    def see(self, step: int, members: Sequence[ScoredTrajectory]) -> tuple[str, ...]:
        """Take a step in.

        Args:
            step: its number.
            members: the episodes of its batch.

        Returns:
            What a person should know; empty but for the step at which the alarm is raised.
        """
        repeated, spread = _repeated(members), _spread(members)
        if repeated is None or spread is None:
            return ()
        self._recent.append((repeated, spread))
        if len(self._recent) < _WINDOW:
            return ()
        repeated, spread = (float(value) for value in np.mean(self._recent, axis=0))
        self._most_spread = max(self._most_spread, spread)
        is_flat = self._most_spread >= self.least_spread and spread <= self.collapsed_at * self._most_spread
        was_raised, self._is_raised = self._is_raised, is_flat and repeated >= self.repeated_at
        if was_raised or not self._is_raised:
            return ()
        return (
            f"echo trap at step {step}: over the last {_WINDOW} steps {repeated:.0%} of turns repeat an earlier one of "
            f"their episode, and rewards of a group differ by {spread:.3g} (std), where they once differed by "
            f"{self._most_spread:.3g}; look at some episodes before more is trained",
        )


def _repeated(members: Sequence[ScoredTrajectory]) -> float | None:
    """Mean over episodes of more than one turn; None without any."""
    shares: list[float] = []
    for member in members:
        turns: dict[tuple[str, int], bytes] = {}
        for segment in member.trajectory.segments:
            if segment.origin == "policy":
                key = (segment.actor, segment.turn)
                turns[key] = turns.get(key, b"") + segment.token_ids.tobytes()
        share = repeated_share([(actor, said) for (actor, _), said in turns.items()]) if len(turns) > 1 else None
        shares += [] if share is None else [share]
    return sum(shares) / len(shares) if shares else None


def _spread(members: Sequence[ScoredTrajectory]) -> float | None:
    """Standard deviation of the rewards of a group, mean over groups; None where no group has two."""
    groups: dict[int, list[float]] = {}
    for member in members:
        if not isinstance(member.outcome, str):
            groups.setdefault(member.trajectory.group_id, []).append(float(member.outcome))
    spreads = [float(np.std(rewards)) for rewards in groups.values() if len(rewards) > 1]
    return sum(spreads) / len(spreads) if spreads else None
