"""A dispatcher in simulated time: sources of their own duration, a learner that takes a while, batches one by one."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from rollwright.record import Group, ScoredTrajectory, TerminalReason, Trajectory
from rollwright.rollout import Limits, Parked
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.parts import Attempt, Collected, GroupCounter
from rollwright.tasks import Mixture, Stratum, TaskOrder
from tests.runtime.fakes import ended, noon, score, task
from tests.runtime.simulation.clock import SimulatedLoop

T = TypeVar("T")


def in_simulated_time(work: Awaitable[T]) -> T:
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def sources(weights: Mapping[str, float], *, size: int = 400) -> TaskOrder:
    """Strata of the given weights; a task's source is its stratum."""
    strata = [
        Stratum(
            name=name,
            weight=weight,
            train=tuple(replace(task(n), task_id=f"{name}/{place * size + n:016x}", source=name) for n in range(size)),
            held_out=(),
        )
        for place, (name, weight) in enumerate(weights.items())
    ]
    for stratum in strata:
        questions = [replace(t, payload=t.payload.replace("what is", f"{stratum.name}:")) for t in stratum.train]
        strata[strata.index(stratum)] = replace(stratum, train=tuple(questions))
    return TaskOrder(Mixture(strata=tuple(strata)), seed=0)


@dataclass
class Episodes:
    """Ends an attempt after its source's seconds, under the version that serves then or served at its beginning."""

    seconds: Callable[[Attempt], float]
    version: int = 0
    end: Callable[[Trajectory], Trajectory] = lambda trajectory: trajectory
    asked: list[Attempt] = field(default_factory=list)

    async def run(self, attempt: Attempt) -> Trajectory | Parked:
        """As the driver does it: superseded, the episode is parked with what was drawn; aborted, it is over."""
        self.asked.append(attempt)
        loop = asyncio.get_running_loop()
        first = self.version if attempt.past is None else attempt.past.trajectory.segments[1].policy_version
        left = self.seconds(attempt) if attempt.past is None else attempt.past.limits.wall_clock_s
        until = loop.time() + left
        for _ in range(math.ceil(left)):
            if attempt.interruption.reason is None:
                await asyncio.sleep(min(1.0, until - loop.time()))
        if attempt.interruption.reason is TerminalReason.ABORTED:
            cut = ended(attempt, TerminalReason.ABORTED, version=first or 0, cause="ended from outside")
            return replace(cut, failure_class="abandoned")
        if loop.time() < until - 1e-6:  # A sum of tenths is not exact.
            cut = ended(attempt, TerminalReason.SUPERSEDED, version=first or 0, cause="ended from outside")
            return parked(replace(cut, failure_class="abandoned"), left=until - loop.time())
        return self.end(ended(attempt, version=first or 0))


def parked(cut: Trajectory, *, left: float) -> Parked:
    """What an interrupted episode leaves; the seconds that it still needs stand in its limits."""
    return Parked(
        trajectory=cut,
        limits=Limits(wall_clock_s=left),
        tools={},
        turns={},
        cut=frozenset(),
        results={},
        steps=(),
        open_turns=(),
        snapshot=None,
        is_interrupted=True,
    )


async def paid(outcomes: Callable[[Trajectory], float], members: Sequence[Trajectory]) -> Sequence[ScoredTrajectory]:
    return [replace(m, outcome=outcomes(m.trajectory)) for m in await score(members)]


@dataclass
class Run:
    """A dispatcher and all around it, for some steps; `resume` goes on from what a step left."""

    episodes: Episodes
    order: Callable[[], TaskOrder]
    admission: AdmissionRule
    rules: Mapping[str, Any] = field(default_factory=dict)
    outcomes: Callable[[Trajectory], float] = lambda trajectory: float(trajectory.slot % 2)
    learn_s: float = 1.0
    batches: list[Collected] = field(default_factory=list)
    rows: list = field(default_factory=list)
    state: Any = None
    """The collector's, after the newest step; None before the first."""
    balance: Any = None
    """The ledger's, likewise."""
    next_group: int = 0
    seconds: float = 0.0
    """Simulated, of the newest steps."""

    @property
    def groups(self) -> list[Group]:
        return [g for b in self.batches for g in b.groups]

    def share(self, source: str) -> float:
        return sum(g.task.source == source for g in self.groups) / len(self.groups)

    def measure(self, name: str, **labels: str) -> list[float | None]:
        """Of each batch."""
        return [
            next((d.value for d in b.measures if d.name == name and dict(d.labels) == labels), None)
            for b in self.batches
        ]

    def dispatcher(self) -> Dispatcher:
        given: dict[str, Any] = {
            "stage": "rl",
            "admission": self.admission,
            "max_attempts": 2,
            "concurrency": 1000,
            "incomplete": "train",
            "first_version": 0,
            **self.rules,
        }
        rules = DispatchRules(**given)
        self.ledger = Ledger(noon, self.balance)
        counter = GroupCounter(self.next_group)
        made = Dispatcher(
            rules,
            order=self.order(),
            counter=counter,
            ledger=self.ledger,
            run_episode=self.episodes.run,
            score=lambda members: paid(self.outcomes, members),
        )
        self.counter = counter
        if self.state is not None:
            made.restore(self.state)
        return made

    def steps(self, count: int) -> "Run":
        """Go on for so many steps, as the loop does it; then the process is gone."""
        in_simulated_time(self._steps(count))
        return self

    async def _steps(self, count: int) -> None:
        dispatcher = self.dispatcher()
        done = 0 if self.state is None else self.state.steps
        async with asyncio.TaskGroup() as background:
            working = background.create_task(dispatcher.run())
            for step in range(done + 1, done + count + 1):
                batch = await asyncio.wait_for(dispatcher.collect(step), 100_000)
                await asyncio.sleep(self.learn_s)
                self.episodes.version = step
                dispatcher.settle(step, batch.groups)
                self.balance, self.state = self.ledger.balance(), dispatcher.state()
                self.rows += self.ledger.take_rows()
                self.next_group = self.counter.next_id
                self.batches.append(batch)
                dispatcher.advance()
            self.seconds = asyncio.get_running_loop().time()
            working.cancel()
