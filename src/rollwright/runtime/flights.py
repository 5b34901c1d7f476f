"""A dispatched group until it is trained, filtered, expired or handed out again, and the attempts in its slots.

slot: attempt ──failed──► new attempt, same slot, same seeds     at most `max_attempts`
              ──parked at a limit──► goes on as a new attempt    at most `max_resumptions`
              ──superseded──► parked until the next step opens, then goes on as a new attempt
              ──ended──► the slot's episode
called off: what runs is aborted, what waits goes home; the group is dispatched again as a new one
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from rollwright.record import (
    Lineage,
    ScoredTrajectory,
    Task,
    TerminalReason,
    Trajectory,
    trajectory_id_of,
    unscored,
)
from rollwright.rollout import Interruption, Parked
from rollwright.runtime.deliveries import Deliveries
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.parts import Attempt, LegFn
from rollwright.tasks import Draw

__all__ = ["Flight", "SlotRules", "SlotRunner", "SlotWatch", "newest_version", "oldest_version"]

_WAITED_ROUNDS = 8
"""Times `max_attempts` that a slot may fail in a row whose group waits for it; then the run stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRules:
    """How often a slot is tried."""

    stage: str
    max_attempts: int
    max_resumptions: int
    at_last_failure: Literal["give_up", "wait"]
    """What follows the last attempt: the slot has failed for good, or it begins again and its group waits."""


@dataclass(slots=True, kw_only=True, eq=False)
class Flight:
    """A dispatched group."""

    group_id: int
    draw: Draw
    version: int
    """Of the policy when it was dispatched."""
    size: int
    attempts: list[int]
    """The newest of each slot."""
    running: dict[int, Interruption] = field(default_factory=dict[int, Interruption])
    """By slot: ends the attempt that runs there."""
    oldest: int | None = None
    """Version of the oldest token that is drawn already and may be trained."""
    held_at: int = -1
    """Steps that were open when it was last interrupted."""
    called_off: str | None = None
    """Why it is dispatched again; None: it goes on."""

    @property
    def task(self) -> Task:
        """What it attempts."""
        return self.draw.task

    async def interrupt(self) -> None:
        """Park what runs."""
        for interruption in tuple(self.running.values()):
            await interruption.end(TerminalReason.SUPERSEDED)

    async def call_off(self, rule: str) -> None:
        """Abort what runs; the first rule stands."""
        self.called_off = self.called_off or rule
        for interruption in tuple(self.running.values()):
            await interruption.end(TerminalReason.ABORTED)

    def note_age(self, trajectory: Trajectory) -> None:
        """Remember the oldest token that a kept attempt brings along."""
        oldest = oldest_version(trajectory)
        if oldest is not None:
            self.oldest = oldest if self.oldest is None else min(self.oldest, oldest)


class SlotWatch(Protocol):
    """What the dispatcher hears of a slot, and decides."""

    def began_attempt(self, flight: Flight, slot: int) -> None:
        """A further attempt starts in a slot."""
        ...

    def left_attempt(self, attempt: ScoredTrajectory) -> None:
        """An attempt is over that no batch will hold."""
        ...

    async def may_go_on(self, flight: Flight) -> None:
        """Wait until a superseded episode may go on; calls the flight off where it would come too late."""
        ...

    def place_free(self) -> None:
        """An episode left its place, or wants none any more."""
        ...


class SlotRunner:
    """Runs the attempts of a slot until one of them is its episode."""

    def __init__(
        self,
        rules: SlotRules,
        *,
        run_episode: LegFn,
        deliveries: Deliveries,
        places: int,
        watch: SlotWatch,
    ) -> None:
        """Store the parts; at most `places` episodes run at once, and others wait."""
        self._rules = rules
        self._run_episode = run_episode
        self._deliveries = deliveries
        self._num_places = places
        self._places = asyncio.Semaphore(places)
        self._watch = watch
        self._wanted = 0

    @property
    def has_place(self) -> bool:
        """True where an episode that starts now waits for none before it."""
        return self._wanted < self._num_places

    def want(self, slots: int) -> None:
        """So many slots are about to be run."""
        self._wanted += slots

    async def run(self, flight: Flight, slot: int) -> Trajectory | None:
        """Attempts until one may be trained, or the slot has failed for good.

        A failure behind a parked episode is retried from there.

        Args:
            flight: of the group; its slots were wanted before.
            slot: its number.

        Returns:
            The last attempt; None where the group was called off before one was made.

        Raises:
            NoProgressError: where the group waits for a slot that fails again and again.
        """
        try:
            return await self._attempts(flight, slot)
        finally:
            self._leave()

    async def _attempts(self, flight: Flight, slot: int) -> Trajectory | None:
        lineage: Lineage | None = None
        past: Parked | None = None
        last: Trajectory | None = None
        failed = resumed = 0
        while flight.called_off is None:
            if last is not None:
                flight.attempts[slot] += 1
                self._watch.began_attempt(flight, slot)
            async with self._places:
                ended = await self._run(flight, slot, past, resumed, (lineage, last.trajectory_id if last else None))
            if isinstance(ended, Parked):
                last, past, lineage = ended.trajectory, ended, "resumed_from"
                flight.note_age(last)
                self._watch.left_attempt(unscored(last, str(last.terminal_reason)))
                if ended.is_interrupted:
                    await self._wait(flight)
                else:
                    resumed += 1
                continue
            last = ended
            if last.terminal_reason.is_trainable:
                flight.note_age(last)
                return last
            self._watch.left_attempt(unscored(last, str(last.terminal_reason)))
            if last.terminal_reason is TerminalReason.SUPERSEDED and flight.called_off is None:
                # It left nothing to go on with: the slot begins again, under the weights that serve then.
                lineage, past = "retry_of", None
                await self._wait(flight)
                continue
            lineage = "retry_of"
            failed += 1
            if failed % self._rules.max_attempts == 0:
                if self._rules.at_last_failure == "give_up":
                    return last
                self._check_wait(failed, last)
        return last

    async def _run(
        self,
        flight: Flight,
        slot: int,
        past: Parked | None,
        resumed: int,
        parent: tuple[Lineage | None, str | None],
    ) -> Trajectory | Parked:
        """One attempt, delivered once; what comes in its place is refused, and it is asked for again."""
        attempt = Attempt(
            purpose="train",
            stage=self._rules.stage,
            group_id=flight.group_id,
            slot=slot,
            attempt=flight.attempts[slot],
            task=flight.task,
            lineage=parent[0],
            parent_trajectory_id=parent[1],
            past=past,
            at_limit="park" if resumed < self._rules.max_resumptions else "end",
        )
        name = trajectory_id_of("train", flight.group_id, slot, flight.attempts[slot])
        flight.running[slot] = attempt.interruption
        try:
            for _ in range(self._rules.max_attempts):
                ended = await self._run_episode(attempt)
                given = (ended.trajectory if isinstance(ended, Parked) else ended).trajectory_id
                if given == name:
                    return ended
                self._deliveries.refuse()
        finally:
            del flight.running[slot]
        raise NoProgressError(
            f"attempt {name} was asked for {self._rules.max_attempts} times and something else came each time. Mend "
            "what runs the episodes and `rollwright resume` the run."
        )

    async def _wait(self, flight: Flight) -> None:
        self._leave()
        try:
            await self._watch.may_go_on(flight)
        finally:
            self._wanted += 1

    def _leave(self) -> None:
        self._wanted -= 1
        self._watch.place_free()

    def _check_wait(self, failed: int, last: Trajectory) -> None:
        if failed >= self._rules.max_attempts * _WAITED_ROUNDS:
            raise NoProgressError(
                f"group {last.group_id} waits for its slot {last.slot}, which failed {failed} times in a row; the last "
                f"cause: {last.failure_cause}. Mend the engine or the environment and `rollwright resume` the run, or "
                "set rollout.incomplete_groups to train or filter."
            )


def oldest_version(trajectory: Trajectory) -> int | None:
    """Of the oldest token that may be trained; None where nothing was sampled."""
    return min(_versions(trajectory), default=None)


def newest_version(trajectory: Trajectory) -> int | None:
    """Of the newest token that may be trained; None where nothing was sampled."""
    return max(_versions(trajectory), default=None)


def _versions(trajectory: Trajectory) -> Sequence[int]:
    return [
        s.policy_version
        for s in trajectory.segments
        if s.origin == "policy" and s.policy == "policy" and s.num_tokens and s.policy_version is not None
    ]
