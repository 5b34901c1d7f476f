"""When nothing comes of what is dispatched: a run that can make no progress stops with the cause."""

from collections.abc import Sequence

from rollwright.record import Group, ScoredTrajectory
from rollwright.runtime.errors import NoProgressError

__all__ = ["HopelessWatch"]

_GROUPS = 8
"""In a row without one finished episode, after which the run stops."""
_BATCHES = 8
"""Of incomplete groups in a row that were filtered, after which the run stops."""


class HopelessWatch:
    """Counts groups of which nothing can be trained."""

    def __init__(self, *, batch_slots: int, max_attempts: int) -> None:
        """Nothing has failed yet."""
        self._batch_slots = batch_slots
        self._max_attempts = max_attempts
        self._empty = 0
        self._slots = 0

    def note_trainable(self) -> None:
        """A group can be trained."""
        self._empty = self._slots = 0

    def note_vain(self, group: Group, attempts: Sequence[ScoredTrajectory]) -> None:
        """A group was filtered for want of members.

        Args:
            group: with what came of it.
            attempts: that ended untrained of late; those of the group say why.

        Raises:
            NoProgressError: with the last cause.
        """
        self._empty = 0 if group.members else self._empty + 1
        self._slots += group.size
        causes = [a.trajectory.failure_cause for a in attempts if a.trajectory.group_id == group.group_id]
        cause = next((c for c in reversed(causes) if c is not None), None)
        if self._empty >= _GROUPS:
            raise NoProgressError(
                f"{self._empty} groups in a row ended without one episode, each slot after {self._max_attempts} "
                f"attempts; the last cause: {cause}. Mend the engine or the environment and `rollwright resume` the "
                "run."
            )
        if self._slots >= _BATCHES * self._batch_slots:
            raise NoProgressError(
                f"{self._slots} slots in a row were of groups that lost members and were filtered; the last cause: "
                f"{cause}. Mend the engine or the environment, or set rollout.incomplete_groups to train, and "
                "`rollwright resume` the run."
            )
