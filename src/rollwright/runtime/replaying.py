"""Training again by the schedule of a stored run: the same groups under the same versions in the same steps.

    stored groups by step ──► episodes, begun with the version of their first token ──► the step that trained them
                                        └── each turn waits for its versions (`ScheduledEngine`)

What is drawn is compared with what was stored, token by token; the first that differs is named.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rollwright.record import Group, ScoredTrajectory, Trajectory
from rollwright.rollout import Parked
from rollwright.runtime.errors import ReplayError
from rollwright.runtime.ledger import Ledger, SlotChange, member_change
from rollwright.runtime.parts import Attempt, Collected, CollectorState, GroupCounter, LegFn, ScoreFn
from rollwright.runtime.schedule import ScheduledEngine

__all__ = ["FixedCounter", "ReplayCollector", "StoredSteps"]


class FixedCounter(GroupCounter):
    """Hands out the group ids that a stored run gave to everything that it did not train by reinforcement."""

    def __init__(self, numbers: Sequence[int]) -> None:
        """Hand out `numbers` in order, then new ones behind the largest."""
        super().__init__(max(numbers, default=-1) + 1)
        self._numbers = list(reversed(numbers))

    def take(self) -> int:
        """The next id."""
        return self._numbers.pop() if self._numbers else super().take()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSteps:
    """What a stored run trained, step by step."""

    stage: str
    groups: Mapping[int, tuple[Group, ...]]
    """Step to its groups."""


class ReplayCollector:
    """The collector of an RL stage that follows a stored run."""

    def __init__(
        self,
        stored: StoredSteps,
        *,
        engine: ScheduledEngine,
        ledger: Ledger,
        run_episode: LegFn,
        score: ScoreFn,
    ) -> None:
        """Store the parts; episodes begin as the steps come to their versions."""
        self._stored = stored
        self._engine = engine
        self._ledger = ledger
        self._run_episode = run_episode
        self._score = score
        self._to_begin = {g.group_id: g for groups in stored.groups.values() for g in groups}
        self._running: dict[int, asyncio.Task[Group]] = {}
        self._trained = 0
        self._steps = 0

    @property
    def needs_policy(self) -> bool:
        """It samples."""
        return True

    async def run(self) -> None:
        """Wait to be cancelled, and end the episodes that run then: the steps begin them."""
        try:
            await asyncio.Event().wait()
        finally:
            left = list(self._running.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    async def collect(self, step: int) -> Collected:
        """Draw everything that was drawn under the versions up to this step's, and give the groups it trained.

        Raises:
            ReplayError: for the first token that comes out otherwise.
        """
        version = step - 1
        due = [group for group in self._to_begin.values() if _first_version(group, step) <= version]
        for group in sorted(due, key=lambda g: g.group_id):
            del self._to_begin[group.group_id]
            for slot in range(group.size):
                self._ledger.enter(_in_flight(group, slot, step))
            self._running[group.group_id] = asyncio.create_task(self._drawn(group), name=f"group {group.group_id}")
        waiting = asyncio.create_task(self._engine.drawn(version), name=f"draws of version {version}")
        try:
            await self._until(waiting)
            due_now = [g.group_id for g in self._stored.groups.get(step, ())]
            groups = [await self._running[group_id] for group_id in due_now]
        finally:
            waiting.cancel()
        for group in groups:
            del self._running[group.group_id]
            for member in group.members:
                self._ledger.enter(member_change(member, "ready", step=step, version=version))
            for slot in _failed_slots(group):
                self._ledger.enter(replace(_in_flight(group, slot, step), state="failed", rule="as it was stored"))
        self._trained += sum(g.size for g in groups)
        return Collected(groups=tuple(groups), others=())

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Note the batch in the ledger."""
        for group in groups:
            for member in group.members:
                self._ledger.enter(member_change(member, "trained", step=step, version=step - 1))
        self._steps += 1

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """None: what is not trained is not drawn."""
        return ()

    def advance(self) -> None:
        """The next step begins what it may by itself."""

    def state(self) -> CollectorState:
        """How far it came; a replay that was stopped is begun anew."""
        return CollectorState(trained_slots=self._trained, steps=self._steps)

    def restore(self, state: CollectorState) -> None:
        """Refused.

        Raises:
            ReplayError: always.
        """
        raise ReplayError("a replay is not resumed: delete its folder and `rollwright replay` the run again.")

    async def _until(self, waiting: asyncio.Task[None]) -> None:
        """Wait for the draws, or for the first episode that fails."""
        while not waiting.done():
            running = {task for task in self._running.values() if not task.done()}
            await asyncio.wait({waiting, *running}, return_when=asyncio.FIRST_COMPLETED)
            for task in self._running.values():
                if task.done():
                    task.result()
        waiting.result()

    async def _drawn(self, stored: Group) -> Group:
        async with asyncio.TaskGroup() as slots:
            running = [slots.create_task(self._episode(member.trajectory)) for member in stored.members]
        scored = await self._score([task.result() for task in running])
        for before, now in zip(stored.members, scored, strict=True):
            _compare(before, now)
        return replace(stored, members=tuple(scored))

    async def _episode(self, stored: Trajectory) -> Trajectory:
        ended = await self._run_episode(
            Attempt(
                purpose="train",
                stage=self._stored.stage,
                group_id=stored.group_id,
                slot=stored.slot,
                attempt=stored.attempt,
                task=stored.task,
                lineage=stored.lineage,
                parent_trajectory_id=stored.parent_trajectory_id,
            )
        )
        assert not isinstance(ended, Parked), "an attempt that ends at its limits parks nothing"
        if stored.terminal_reason.is_trainable and not ended.terminal_reason.is_trainable:
            raise ReplayError(
                f"trajectory {stored.trajectory_id} met an accident in the replay, and none when it was recorded "
                f"({ended.terminal_reason}: {ended.failure_cause}). Mend the environment, delete the replay's folder "
                "and replay the run again."
            )
        return ended


def _in_flight(group: Group, slot: int, step: int) -> SlotChange:
    return SlotChange(
        group_id=group.group_id,
        slot=slot,
        attempt=0,
        state="in_flight",
        task=group.task,
        step=step,
        policy_version=step - 1,
    )


def _failed_slots(group: Group) -> list[int]:
    return sorted(set(range(group.size)) - {m.trajectory.slot for m in group.members})


def _first_version(group: Group, step: int) -> int:
    versions = [
        s.policy_version
        for m in group.members
        for s in m.trajectory.segments
        if s.origin == "policy" and s.policy_version is not None
    ]
    return min(versions, default=step - 1)


def _compare(before: ScoredTrajectory, now: ScoredTrajectory) -> None:
    """Name the first difference between an episode and its replay.

    Raises:
        ReplayError: where there is one.
    """
    name = before.trajectory_id
    pairs = zip(before.trajectory.segments, now.trajectory.segments, strict=False)
    for old, new in pairs:
        place = f"trajectory {name}, segment {old.segment} (turn {old.turn}, {old.origin})"
        if old.origin != new.origin or not np.array_equal(old.token_ids, new.token_ids):
            raise ReplayError(
                f"the replay differs first in {place}: {_first_difference(old.token_ids, new.token_ids)}."
            )
        drawn, again = old.behavior_logprobs, new.behavior_logprobs
        if drawn is not None and again is not None and not np.array_equal(drawn, again):
            raise ReplayError(f"the replay differs first in {place}: the same tokens at other log-probabilities.")
    counts = len(before.trajectory.segments), len(now.trajectory.segments)
    if counts[0] != counts[1]:
        raise ReplayError(f"the replay differs in trajectory {name}: {counts[1]} segments instead of {counts[0]}.")
    if before.outcome != now.outcome:
        raise ReplayError(
            f"the replay differs in trajectory {name}: outcome {now.outcome} instead of {before.outcome}."
        )


def _first_difference(old: np.ndarray, new: np.ndarray) -> str:
    shared = min(len(old), len(new))
    places = np.flatnonzero(old[:shared] != new[:shared])
    if len(places):
        return f"token {places[0]} is {new[places[0]]}, stored is {old[places[0]]}"
    return f"{len(new)} tokens, stored are {len(old)}"
