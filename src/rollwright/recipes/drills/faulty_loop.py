"""The real learner and the real collector with a fault between them and the loop."""

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, assert_never

from rollwright.algorithms import Objective
from rollwright.batches import ReferenceScores, StepBatch, UpdateOutcome, UpdatePlan
from rollwright.recipes.drills.kinds import LearnerFault
from rollwright.recipes.drills.machine import limit_files
from rollwright.recipes.drills.strikes import InjectedFaultError, Strikes
from rollwright.record import Group, ScoredTrajectory, WeightsManifest
from rollwright.runtime.parts import Collected, Collector, CollectorState, Learner
from rollwright.runtime.watchdog import Watchdog

__all__ = ["FaultyCollector", "FaultyLearner"]

_LONGEST_HANG_S = 600.0
_ROOM_BYTES = 2048


class FaultyLearner:
    """Struck behind the updates of an RL step: they were made, and nothing of them is recorded yet."""

    def __init__(
        self, learner: Learner, fault: LearnerFault, strikes: Strikes, watchdog: Watchdog, door: threading.Event
    ) -> None:
        """Stand before `learner`; what hangs goes on when `door` is opened."""
        self._learner = learner
        self._fault = fault
        self._strikes = strikes
        self._watchdog = watchdog
        self._door = door

    def score_before_credit(self, draft: StepBatch, objective: Objective) -> StepBatch:
        """Pass on."""
        return self._learner.score_before_credit(draft, objective)

    def score_reference(self, batch: StepBatch) -> ReferenceScores:
        """Pass on."""
        return self._learner.score_reference(batch)

    def train(
        self, batch: StepBatch, objective: Objective, *, first_update: int
    ) -> Sequence[tuple[UpdatePlan, UpdateOutcome]]:
        """Make the updates; then the fault may strike."""
        with self._watchdog.waiting("learner", f"update {first_update}"):
            made = self._learner.train(batch, objective, first_update=first_update)
            if self._fault in ("none", "kills_the_run_while_saving") or not self._strikes.hit():
                return made
            if self._fault == "dies":
                raise InjectedFaultError("the learner died behind an update")
            if self._fault == "hangs":
                self._door.wait(_LONGEST_HANG_S)
            else:
                limit_files(_ROOM_BYTES)
            return made

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        """Pass on."""
        return self._learner.manifest(version=version, update=update)

    def weights(self) -> Mapping[str, object]:
        """Pass on."""
        return self._learner.weights()

    def snapshot(self) -> Callable[[Path], None]:
        """Pass on; the process may end while it is written."""
        write = self._learner.snapshot()
        if self._fault != "kills_the_run_while_saving" or not self._strikes.hit():
            return write

        def write_and_die(folder: Path) -> None:
            write(folder)
            os.kill(os.getpid(), signal.SIGKILL)

        return write_and_die


class FaultyCollector:
    """Tells the strikes that the RL stage has begun; with `is_doubling`, a group is handed over a second time."""

    def __init__(self, collector: Collector, strikes: Strikes, delivery: Literal["once", "twice"]) -> None:
        """Stand before `collector`."""
        self._collector = collector
        self._strikes = strikes
        self._delivery: Literal["once", "twice"] = delivery
        self._before: tuple[Group, ...] = ()

    @property
    def needs_policy(self) -> bool:
        """Of the collector behind."""
        return self._collector.needs_policy

    async def run(self) -> None:
        """Of the collector behind."""
        if self._collector.needs_policy:
            self._strikes.arm()
        await self._collector.run()

    async def collect(self, step: int) -> Collected:
        """The batch, with a group of the last one in the place of its first where that is struck."""
        collected = await self._collector.collect(step)
        groups, before = collected.groups, self._before
        self._before = groups
        match self._delivery:
            case "once":
                return collected
            case "twice":
                is_struck = bool(before) and self._strikes.hit()
                return replace(collected, groups=(*groups, before[0])) if is_struck else collected
            case _:
                assert_never(self._delivery)

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        """Of the collector behind."""
        self._collector.settle(step, groups)

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        """Of the collector behind."""
        return self._collector.leftovers()

    def advance(self) -> None:
        """Of the collector behind."""
        self._collector.advance()

    def state(self) -> CollectorState:
        """Of the collector behind."""
        return self._collector.state()

    def restore(self, state: CollectorState) -> None:
        """Of the collector behind."""
        self._collector.restore(state)
