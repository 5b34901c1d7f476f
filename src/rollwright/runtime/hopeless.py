"""When nothing comes of what is dispatched: a run that can make no progress stops with the cause."""

from collections.abc import Sequence

from rollwright.record import Group, ScoredTrajectory
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.filtering import OverLag, deciding_version

__all__ = ["HopelessWatch"]

_GROUPS = 8
"""In a row without one finished episode, after which the run stops."""
_BATCHES = 8
"""Of incomplete groups in a row that were filtered, or of expired slots beyond all that could be held, after which the
run stops."""


class HopelessWatch:
    """Counts groups of which nothing can be trained."""

    def __init__(self, admission: AdmissionRule, *, max_attempts: int, over_lag: OverLag) -> None:
        """Nothing has failed yet."""
        self._admission = admission
        self._max_attempts = max_attempts
        self._over_lag: OverLag = over_lag
        self._empty = 0
        self._slots = 0
        self._expired = 0

    def note_batch(self) -> None:
        """A batch is full."""
        self._expired = 0

    def note_expired(self, members: Sequence[ScoredTrajectory], *, step: int, oldest_allowed: int) -> None:
        """Some episodes were too old for the batch of `step`.

        All that can be in flight or ready may grow old at once; what is started in its place is drawn under the weights
        that serve, and is not.

        Raises:
            NoProgressError: where that expires too.
        """
        self._expired += len(members)
        if self._expired < self._admission.most_ready + _BATCHES * self._admission.batch_slots:
            return
        decider = deciding_version(members, self._over_lag, otherwise=oldest_allowed)
        which = "oldest token" if self._over_lag == "expire" else "newest token"
        masked = "set runtime.over_lag to mask, " if self._over_lag == "expire" else ""
        raise NoProgressError(
            f"{self._expired} slots in a row expired before the batch of step {step} was full: the {which} of the last "
            f"is of version {decider} and that step trains nothing older than version {oldest_allowed} (max_lag is "
            f"{self._admission.max_lag}). Raise runtime.max_lag, {masked}or let less run at once "
            "(runtime.concurrency, runtime.oversample) and for a shorter time (the limits of rollout), so that it "
            "ends before so many steps; where it is short, find out why the engine draws from old weights. Then "
            "`rollwright resume` the run."
        )

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
        if self._slots >= _BATCHES * self._admission.batch_slots:
            raise NoProgressError(
                f"{self._slots} slots in a row were of groups that lost members and were filtered; the last cause: "
                f"{cause}. Mend the engine or the environment, or set rollout.incomplete_groups to train, and "
                "`rollwright resume` the run."
            )
