"""Dispatches groups of attempts under the admission rule and delivers the finished ones.

    tasks ──take──► admit? ──► group: slots run at once ──► score ──► buffer ──collect──► batch
                      ▲            │ failed by no fault of its own: new attempt, same slot, same seeds
                      │            │ cut by a limit, under `resume`: new attempt, which goes on with it
                      │            │ superseded by a full batch: parked till the next step, or dispatched again
                      │            └ failed for good: the incomplete-group rule
                      └── woken by: a new version (version + 1), a filtered or expired group, a free place

One background loop (`run`) admits; each group is a task of its TaskGroup. It waits on `_wake` alone. Nothing here grows
without bound: groups in flight and ready are bounded by admission, groups aside by the refill rule, episodes that wait
for a place by one group.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.algorithms.sampling.dynamic_sampling import ProposedGroup
from rollwright.record import Group, ScoredTrajectory, Trajectory, unscored
from rollwright.runtime.account import GroupAccount
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.buffer import GroupBuffer, ReadyGroup, RefillRule
from rollwright.runtime.collected_metrics import duplicates_refused, outcomes_before_filter
from rollwright.runtime.deliveries import Deliveries
from rollwright.runtime.filtering import (
    IncompleteRule,
    OverLag,
    deciding_version,
    is_enough,
    proposed_group,
    split_by_age,
)
from rollwright.runtime.flights import Flight, SlotRules, SlotRunner
from rollwright.runtime.hopeless import HopelessWatch
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.mixing import MixtureRule, SourceMix
from rollwright.runtime.parts import Collected, CollectorState, GroupCounter, LegFn, ScoreFn
from rollwright.tasks import TaskOrder

__all__ = ["DispatchRules", "Dispatcher"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchRules:
    """Numbers and names that decide what is dispatched and kept."""

    stage: str
    admission: AdmissionRule
    max_attempts: int
    """Of a slot, those that failed by no fault of the policy; a resumption is none of them."""
    concurrency: int
    incomplete: IncompleteRule
    first_version: int
    """Policy version at the stage's start."""
    max_resumptions: int = 0
    """How often a slot whose episode a limit cut goes on with it; after that it ends there."""
    min_fraction: float = 0.0
    """Of a group's slots that must have come, where what came is trained; one at least."""
    over_lag: OverLag = "expire"
    """What becomes of a trajectory over the largest lag."""
    mixture: MixtureRule = "dispatch"
    refill: RefillRule | None = None
    """Not None: groups without contrast are filtered and replaced."""
    stragglers: Literal["wait", "park", "requeue"] = "wait"
    """What becomes of episodes in flight when the batch is full: they run on; they are parked, and go on with the next
    step; or those that the next batch could not take are dispatched again."""
    success_at: float = 1.0
    """Reward from which an attempt is right, for the shares of groups without contrast."""


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
        self._score = score
        self._deliveries = Deliveries()
        self._slots = SlotRunner(
            SlotRules(
                stage=rules.stage,
                max_attempts=rules.max_attempts,
                max_resumptions=rules.max_resumptions,
                at_last_failure="wait" if rules.incomplete == "wait" else "give_up",
            ),
            run_episode=run_episode,
            deliveries=self._deliveries,
            places=rules.concurrency,
            watch=self,
        )
        self._mix = SourceMix(order.shares, rules.mixture)
        self._account = GroupAccount(
            order=order, counter=counter, ledger=ledger, mix=self._mix, deliveries=self._deliveries
        )
        aside = 0 if rules.refill is None else rules.refill.most_extra * rules.admission.group_size
        self._buffer = GroupBuffer(rules.admission.most_ready + aside, refill=rules.refill)
        self._wake = asyncio.Event()
        self._next_step = asyncio.Event()
        self._running = 0
        self._trained = 0
        self._steps = 0
        self._open_steps = 0
        self._untrained: list[ScoredTrajectory] = []
        self._proposed: list[ProposedGroup] = []
        """Scored since the last batch, where groups without contrast are filtered."""
        self._hopeless = HopelessWatch(rules.admission, max_attempts=rules.max_attempts, over_lag=rules.over_lag)

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
            try:
                while True:
                    while self._may_start():
                        flight = self._start()
                        groups.create_task(self._run_group(flight), name=f"group {flight.group_id}")
                    self._wake.clear()
                    await self._wake.wait()
            finally:
                self._call_all_off()

    async def collect(self, step: int) -> Collected:
        """Wait for a batch of young enough groups; expired ones are counted and make room.

        Raises:
            NoProgressError: where all that is sampled expires.
        """
        oldest = step - 1 - self._rules.admission.max_lag
        while True:
            batch, old = await self._buffer.take(self._rules.admission.batch_slots, oldest_allowed=oldest)
            if batch:
                break
            expired = [member for ready in old for member in await self._expire(ready, oldest)]
            self._untrained += expired
            self._hopeless.note_expired(expired, step=step, oldest_allowed=oldest)
            self._wake.set()
        self._hopeless.note_batch()
        # Not yet trained: they keep their place in the account until the step is settled. A batch that stayed smaller
        # has used up its whole allowance.
        self._trained += self._rules.admission.batch_slots
        for ready in batch:
            self._account.accept(ready.group)
        filtered = [m for g in self._buffer.take_aside() for m in self._drop(g.group, "filtered", "no_contrast")]
        await self._hold_stragglers(step)
        others = (*self._untrained, *filtered)
        self._untrained = []
        self._wake.set()
        return Collected(groups=tuple(r.group for r in batch), others=others, measures=self._measures())

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Note the batch in the ledger."""
        for group in groups:
            self._account.train(group, step=step, version=self._version)
        self._steps += 1

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """Failed, parked and expired attempts that no batch has taken along."""
        left, self._untrained = tuple(self._untrained), []
        return left

    def advance(self) -> None:
        """Let the groups of the next version start, and parked episodes go on."""
        self._open_steps = self._steps
        self._next_step.set()
        self._next_step = asyncio.Event()
        self._wake.set()

    def state(self) -> CollectorState:
        """What this stage has trained, the place in the order of tasks, and what is to be dispatched again."""
        open_groups, order = self._account.state()
        return CollectorState(
            trained_slots=self._trained,
            steps=self._steps,
            order=order,
            open_groups=open_groups,
            owed=self._mix.state() if self._rules.mixture == "deficit" else None,
        )

    def restore(self, state: CollectorState) -> None:
        """Go on from what was saved; groups that were in flight or ready then are dispatched anew."""
        assert state.order is not None, "an RL stage saves its place in the order of tasks"
        self._trained, self._steps = state.trained_slots, state.steps
        self._open_steps = self._steps
        self._account.restore(state.open_groups, state.order)
        if state.owed is not None and self._rules.mixture == "deficit":
            self._mix.restore(state.owed)

    async def deliver(self, group: Group) -> Literal["accepted", "refused"]:
        """Take a group of which every slot has ended, once; a second delivery is refused and counted.

        Raises:
            NoProgressError: when group after group fails for good.
        """
        if not self._account.take_delivery(group.group_id):
            return "refused"
        self._running -= group.size
        if self._rules.refill is not None:
            self._proposed.append(proposed_group(group))
        if is_enough(len(group.members), group.size, self._rules.incomplete, min_fraction=self._rules.min_fraction):
            self._hopeless.note_trainable()
            await self._buffer.put(self._ready(group))
            self._wake.set()
            return "accepted"
        self._untrained += self._drop(group, "filtered", "incomplete_group")
        self._hopeless.note_vain(group, self._untrained)
        self._wake.set()
        return "accepted"

    # What a slot tells and asks.

    def began_attempt(self, flight: Flight, slot: int) -> None:
        """A further attempt starts in a slot."""
        self._account.enter(flight, slot, "in_flight", step=self._version + 1)

    def left_attempt(self, attempt: ScoredTrajectory) -> None:
        """An attempt is over that no batch will hold."""
        self._untrained.append(attempt)

    async def may_go_on(self, flight: Flight) -> None:
        """Wait until a superseded episode may go on; calls the flight off where it would come too late."""
        while self._open_steps <= flight.held_at and flight.called_off is None:
            await self._next_step.wait()
        is_late = flight.oldest is not None and flight.oldest < self._version - self._rules.admission.max_lag
        if is_late and self._rules.over_lag == "expire":
            await flight.call_off("lag")

    def place_free(self) -> None:
        """An episode left its place, or wants none any more."""
        self._wake.set()

    @property
    def _version(self) -> int:
        return self._rules.first_version + self._open_steps

    def _may_start(self) -> bool:
        """Age allows a group, and at least one of its episodes has a place."""
        return self._slots.has_place and self._rules.admission.admits(
            accepted=self._trained + self._buffer.ready_slots, running=self._running, version=self._open_steps
        )

    def _start(self) -> Flight:
        flight = self._account.open(size=self._rules.admission.group_size, version=self._version)
        self._slots.want(flight.size)
        self._running += flight.size
        return flight

    async def _run_group(self, flight: Flight) -> None:
        async with asyncio.TaskGroup() as slots:
            running = [
                slots.create_task(self._slots.run(flight, slot), name=f"group {flight.group_id} slot {slot}")
                for slot in range(flight.size)
            ]
        ended = [task.result() for task in running]
        if flight.called_off is not None:
            self._give_back(flight, flight.called_off, ended)
            return
        whole = [t for t in ended if t is not None]
        members = await self._score([t for t in whole if t.terminal_reason.is_trainable])
        for trajectory in whole:
            if not trajectory.terminal_reason.is_trainable:
                self._account.enter(flight, trajectory.slot, "failed", step=self._version + 1, trajectory=trajectory)
        self._account.enter_members(members, "ready", version=self._version)
        await self.deliver(Group(group_id=flight.group_id, task=flight.task, size=flight.size, members=tuple(members)))

    def _call_all_off(self) -> None:
        """Nothing starts any more: a slot goes on with no attempt, should its own cancellation be lost in one.

        `asyncio.wait_for` of Python 3.11 loses a cancellation that comes together with what it waits for.
        """
        for flight in self._account.flights:
            flight.called_off = flight.called_off or "over"
        self._next_step.set()

    def _give_back(self, flight: Flight, rule: str, ended: Sequence[Trajectory | None]) -> None:
        """The draw is handed out again; what was made of it is recorded and never trained."""
        self._running -= flight.size
        self._untrained += [unscored(t, "requeued") for t in ended if t is not None and t.terminal_reason.is_trainable]
        self._account.give_back(flight, rule)
        self._wake.set()

    async def _hold_stragglers(self, step: int) -> None:
        """The batch is full: what is in flight is parked, or given up where the next batch could not take it."""
        if self._rules.stragglers == "wait":
            return
        next_oldest = step - self._rules.admission.max_lag
        for flight in self._account.flights:
            if not flight.running:
                continue
            flight.held_at = self._open_steps
            if self._rules.stragglers == "park":
                await flight.interrupt()
            elif flight.version < next_oldest:
                await flight.call_off("straggler")

    async def _expire(self, ready: ReadyGroup, oldest_allowed: int) -> Sequence[ScoredTrajectory]:
        """Members over the largest lag leave alone; what is left of their group stays where it is enough."""
        group, rules = ready.group, self._rules
        fresh, stale = split_by_age(group.members, rules.over_lag, oldest_allowed=oldest_allowed)
        if is_enough(len(fresh), group.size, rules.incomplete, min_fraction=rules.min_fraction):
            self._account.enter_members(stale, "expired", version=self._version, rule="lag")
            await self._buffer.put(self._ready(replace(group, members=fresh)))
            return stale
        self._account.enter_members(fresh, "filtered", version=self._version, rule="incomplete_group")
        self._drop(replace(group, members=stale), "expired", "lag")
        return group.members

    def _ready(self, group: Group) -> ReadyGroup:
        return ReadyGroup(
            group=group,
            oldest_version=deciding_version(group.members, self._rules.over_lag, otherwise=self._version),
            has_contrast=self._rules.refill is None or proposed_group(group).has_contrast,
        )

    def _drop(self, group: Group, state: Literal["filtered", "expired"], rule: str) -> tuple[ScoredTrajectory, ...]:
        return self._account.drop(group, state, rule, version=self._version)

    def _measures(self) -> tuple[Diagnostic, ...]:
        refused = self._deliveries.take_refused()
        seen: tuple[Diagnostic, ...] = ()
        if self._rules.refill is not None:
            seen = outcomes_before_filter(self._proposed, success_at=self._rules.success_at)
            self._proposed = []
        return (*self._mix.report(), *seen, duplicates_refused(refused))
