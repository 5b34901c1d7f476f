"""Dispatches groups of attempts under the admission rule and delivers the finished ones.

    tasks ──take──► admit? ──► group: slots run at once ──► score ──► buffer ──collect──► batch
                      ▲            │ failed by no fault of its own: new attempt, same slot, same seeds
                      │            │ cut by a limit, under `resume`: new attempt, which goes on with it
                      │            └ failed for good: the incomplete-group rule
                      └── woken by: a saved step (version + 1), a filtered or expired group

One background loop (`run`) admits; each group is a task of its TaskGroup. It waits on `_wake` alone.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Group, LedgerState, Lineage, ScoredTrajectory, Task, Trajectory, unscored
from rollwright.rollout import Parked
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.buffer import GroupBuffer, ReadyGroup
from rollwright.runtime.errors import NoProgressError
from rollwright.runtime.ledger import Ledger, SlotChange
from rollwright.runtime.parts import Attempt, Collected, CollectorState, GroupCounter, LegFn, ScoreFn
from rollwright.tasks import Draw, TaskOrder

__all__ = ["Dispatcher", "DispatchRules"]

_HOPELESS_GROUPS = 8
"""Groups in a row without one finished episode, after which the run stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRules:
    """Numbers and names that decide what is dispatched and kept."""

    stage: str
    admission: AdmissionRule
    max_attempts: int
    """Of a slot, those that failed by no fault of the policy; a resumption is none of them."""
    concurrency: int
    incomplete: Literal["train", "filter"]
    first_version: int
    """Policy version at the stage's start."""
    max_resumptions: int = 0
    """How often a slot whose episode a limit cut goes on with it; after that it ends there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dispatched:
    group_id: int
    draw: Draw
    version: int

    @property
    def task(self) -> Task:
        return self.draw.task


class Dispatcher:
    """The collector of an RL stage."""

    def __init__(
        self,
        rules: DispatchRules,
        *,
        order: TaskOrder,
        counter: GroupCounter,
        ledger: Ledger,
        run_episode: LegFn,
        score: ScoreFn,
    ) -> None:
        """Store the parts; nothing runs before `run`."""
        self._rules = rules
        self._order = order
        self._draws: dict[int, int] = {}
        self._counter = counter
        self._ledger = ledger
        self._run_episode = run_episode
        self._score = score
        self._buffer = GroupBuffer((rules.admission.max_lag + 2) * rules.admission.batch_slots)
        self._places = asyncio.Semaphore(rules.concurrency)
        self._wake = asyncio.Event()
        self._running = 0
        self._trained = 0
        self._steps = 0
        self._open_steps = 0
        self._untrained: list[ScoredTrajectory] = []
        self._hopeless = 0

    @property
    def needs_policy(self) -> bool:
        """An RL stage samples from the newest weights."""
        return True

    async def run(self) -> None:
        """Admit groups for ever; ends when cancelled, with every episode it started.

        Raises:
            NoProgressError: when group after group fails for good.
        """
        async with asyncio.TaskGroup() as groups:
            while True:
                while self._rules.admission.admits(
                    accepted=self._trained + self._buffer.ready_slots, running=self._running, version=self._open_steps
                ):
                    dispatched = _Dispatched(
                        group_id=self._counter.take(), draw=self._order.draw(), version=self._version
                    )
                    self._draws[dispatched.group_id] = dispatched.draw.number
                    self._running += self._rules.admission.group_size
                    for slot in range(self._rules.admission.group_size):
                        self._enter(dispatched, slot, "in_flight")
                    groups.create_task(self._run_group(dispatched), name=f"group {dispatched.group_id}")
                self._wake.clear()
                await self._wake.wait()

    async def collect(self, step: int) -> Collected:
        """Wait for a batch of young enough groups; expired ones are counted and make room."""
        oldest = step - 1 - self._rules.admission.max_lag
        expired: list[ScoredTrajectory] = []
        while True:
            batch, old = await self._buffer.take(self._rules.admission.batch_slots, oldest_allowed=oldest)
            for ready in old:
                self._settle(ready.group, "expired", "lag")
                expired += ready.group.members
            if batch:
                others = (*self._untrained, *expired)
                self._untrained = []
                # In the batch and not yet trained: they keep their place in the account until the step is settled.
                self._trained += sum(r.group.size for r in batch)
                return Collected(groups=tuple(r.group for r in batch), others=others)
            self._wake.set()

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Note the batch in the ledger."""
        for group in groups:
            self._order.settle(self._draws.pop(group.group_id))
            for member in group.members:
                self._enter_member(member, "trained", step=step)
        self._steps += 1

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """Failed and parked attempts that no batch has taken along."""
        left, self._untrained = tuple(self._untrained), []
        return left

    def advance(self) -> None:
        """Let the groups of the next version start."""
        self._open_steps = self._steps
        self._wake.set()

    def state(self) -> CollectorState:
        """What this stage has trained, and the place in the order of tasks."""
        return CollectorState(trained_slots=self._trained, steps=self._steps, order=self._order.state())

    def restore(self, state: CollectorState) -> None:
        """Go on from what was saved; groups that were in flight then are dispatched anew."""
        assert state.order is not None, "an RL stage saves its place in the order of tasks"
        self._trained, self._steps = state.trained_slots, state.steps
        self._open_steps = self._steps
        self._order.restore(state.order)

    @property
    def _version(self) -> int:
        return self._rules.first_version + self._open_steps

    async def _run_group(self, dispatched: _Dispatched) -> None:
        async with asyncio.TaskGroup() as slots:
            running = [
                slots.create_task(self._run_slot(dispatched, slot), name=f"group {dispatched.group_id} slot {slot}")
                for slot in range(self._rules.admission.group_size)
            ]
        ended = [task.result() for task in running]
        members = await self._score([t for t in ended if t.terminal_reason.is_trainable])
        for slot, trajectory in enumerate(ended):
            if not trajectory.terminal_reason.is_trainable:
                self._enter(dispatched, slot, "failed", trajectory=trajectory, rule=trajectory.failure_cause)
        for member in members:
            self._enter_member(member, "ready", step=self._version + 1)
        group = Group(
            group_id=dispatched.group_id,
            task=dispatched.task,
            size=self._rules.admission.group_size,
            members=tuple(members),
        )
        self._running -= group.size
        is_complete = len(group.members) == group.size
        if group.members and (is_complete or self._rules.incomplete == "train"):
            self._hopeless = 0
            await self._buffer.put(ReadyGroup(group=group, oldest_version=_oldest_version(group, self._version)))
            return
        self._settle(group, "filtered", "incomplete_group")
        self._untrained += group.members
        self._hopeless = 0 if group.members else self._hopeless + 1
        if self._hopeless >= _HOPELESS_GROUPS:
            raise NoProgressError(
                f"{self._hopeless} groups in a row ended without one episode, each slot after "
                f"{self._rules.max_attempts} attempts; the last cause: {ended[-1].failure_cause}. Mend the engine or "
                "the environment and `rollwright resume` the run."
            )
        self._wake.set()

    async def _run_slot(self, dispatched: _Dispatched, slot: int) -> Trajectory:
        """Attempts until one may be trained. One that failed behind a parked episode is retried from there."""
        lineage: Lineage | None = None
        parent: str | None = None
        past: Parked | None = None
        failed = resumed = 0
        while True:
            if failed or resumed:
                self._enter(dispatched, slot, "in_flight", attempt=failed + resumed)
            async with self._places:
                ended = await self._run_episode(
                    Attempt(
                        purpose="train",
                        stage=self._rules.stage,
                        group_id=dispatched.group_id,
                        slot=slot,
                        attempt=failed + resumed,
                        task=dispatched.task,
                        lineage=lineage,
                        parent_trajectory_id=parent,
                        past=past,
                        at_limit="park" if resumed < self._rules.max_resumptions else "end",
                    )
                )
            if isinstance(ended, Parked):
                trajectory, past, lineage = ended.trajectory, ended, "resumed_from"
                resumed += 1
            elif ended.terminal_reason.is_trainable:
                return ended
            else:
                trajectory, lineage = ended, "retry_of"
                failed += 1
            parent = trajectory.trajectory_id
            self._untrained.append(unscored(trajectory, str(trajectory.terminal_reason)))
            if failed == self._rules.max_attempts:
                return trajectory

    def _enter(
        self,
        dispatched: _Dispatched,
        slot: int,
        state: LedgerState,
        *,
        attempt: int = 0,
        trajectory: Trajectory | None = None,
        rule: str | None = None,
    ) -> None:
        self._ledger.enter(
            SlotChange(
                group_id=dispatched.group_id,
                slot=slot,
                attempt=trajectory.attempt if trajectory else attempt,
                state=state,
                task=dispatched.task,
                step=self._version + 1,
                policy_version=dispatched.version,
                trajectory_id=trajectory.trajectory_id if trajectory else None,
                rule=rule,
            )
        )

    def _enter_member(
        self, member: ScoredTrajectory, state: LedgerState, *, step: int, rule: str | None = None
    ) -> None:
        self._ledger.enter(member_change(member, state, step=step, rule=rule, version=self._version))

    def _settle(self, group: Group, state: LedgerState, rule: str) -> None:
        self._order.settle(self._draws.pop(group.group_id))
        for member in group.members:
            self._enter_member(member, state, step=self._version + 1, rule=rule)


def member_change(
    member: ScoredTrajectory, state: LedgerState, *, step: int, version: int, rule: str | None = None
) -> SlotChange:
    """The change of state of the slot that a finished member stands in."""
    trajectory = member.trajectory
    return SlotChange(
        group_id=trajectory.group_id,
        slot=trajectory.slot,
        attempt=trajectory.attempt,
        state=state,
        task=trajectory.task,
        step=step,
        policy_version=version,
        trajectory_id=trajectory.trajectory_id,
        rule=rule,
    )


def _oldest_version(group: Group, newest: int) -> int:
    versions = [
        s.policy_version
        for m in group.members
        for s in m.trajectory.segments
        if s.origin == "policy" and s.policy_version is not None
    ]
    return min(versions, default=newest)
