"""One run through all its processes: each goes on from the disk that the one before it left."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

from rollwright.algorithms import center_within_group, score_function, supervised
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.batches import BatchRules
from rollwright.engines.scripted import ScriptedEngine
from rollwright.evaluation import Evaluation
from rollwright.evidence import CommitRows, RunFolder
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.demonstrations import DemonstrationCollector
from rollwright.runtime.dispatcher import Dispatcher
from rollwright.runtime.errors import NoProgressError, RunStoppedError, RuntimeRunError
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.loop import Loop, LoopParts, Stage
from rollwright.runtime.parts import Attempt, Collector, EpisodeFn, GroupCounter, LegFn
from rollwright.runtime.progress import Progress
from rollwright.runtime.saving import CheckpointRule
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.timebook import TimeBook
from rollwright.runtime.weights import PublicationRule, WeightChannel, WeightShelf
from rollwright.tasks import Mixture, Stratum, TaskOrder
from tests.batches.episodes import DEMONSTRATION, POLICY
from tests.runtime.fakes import NOON, task
from tests.runtime.simulation.account import Account, check_step
from tests.runtime.simulation.clock import KilledError, SimulatedLoop
from tests.runtime.simulation.disk import Disk
from tests.runtime.simulation.outside import CountingLearner, Outside, Quiet, ScorerError, WatchedEngine
from tests.runtime.simulation.plans import Ending, Plan

__all__ = ["Process", "Told", "simulate"]

NUM_TASKS = 400
"""More than a plan draws, so that every draw is a task of its own."""


@dataclass
class Told:
    """What became of a run."""

    endings: Counter[str] = field(default_factory=Counter[str])
    slots: Counter[str] = field(default_factory=Counter[str])
    steps: int = 0
    """Committed, those that were done again counted each time."""
    calls: int = 0
    seconds: float = 0.0
    """Simulated."""
    is_finished: bool = False


@cache
def mixture() -> Mixture:
    """Two sources of one size."""
    numbers = range(NUM_TASKS)
    sources = [
        Stratum(name=name, weight=1.0, train=tuple(task(n) for n in numbers if n % 2 == odd), held_out=())
        for name, odd in (("even", 0), ("odd", 1))
    ]
    return Mixture(strata=tuple(sources))


def make_order() -> TaskOrder:
    """As every process makes it."""
    return TaskOrder(mixture(), seed=0)


@cache
def sequences() -> Mapping[str, tuple[str, ...]]:
    """The tasks of each source in the order in which they are drawn."""
    order = make_order()
    return {name: tuple(order.draw(name).task.task_id for _ in range(NUM_TASKS // 2)) for name in order.shares}


class Process:
    """One process of a run, from its start to whatever ends it."""

    def __init__(
        self,
        plan: Plan,
        disk: Disk,
        number: int = 0,
        ending: Ending | None = None,
        *,
        heard: Callable[[CommitRows], None] | None = None,
        refused: frozenset[int] | None = None,
    ) -> None:
        """Make it, on the disk as it stands.

        Args:
            plan: of the run.
            disk: that it goes on from.
            number: of the process in its run.
            ending: None: it ends when its work is done, and its engine refuses nothing.
            heard: is told of every commit; by default each is checked.
            refused: versions that its engine refuses; by default as the plan's chance has it.
        """
        self.plan = plan
        self.disk = disk
        self.ending = ending
        self.refused = self._by_chance(number) if refused is None else refused
        self.heard = heard or (lambda rows: check_step(plan, rows))
        self.outside = Outside(plan, number)
        self.loop = SimulatedLoop(
            duration=self._duration, after_call=self._after_call, most_calls=100_000 + 2_000 * plan.total_steps
        )
        self._touches = 0
        self._main: asyncio.Task[Any] | None = None
        if ending is not None and ending.kind == "scorer":
            self.outside.breaks_at = ending.at
        self.progress = self._go_on()
        self.parts = self._parts(number)

    def run(self) -> str:
        """Run to the end, and say what it was."""
        self.disk.touch, self.disk.heard = self._touch, self.heard
        try:
            self._main = self.loop.create_task(Loop(self.parts, self.progress).run(), name="the run")
            how = self._ended_by(lambda main: self.loop.run_until_complete(main))
            left = [one.get_name() for one in asyncio.all_tasks(self.loop)]
            assert how == "killed" or not left, f"left behind: {left}"
            assert not self.loop.complaints, self.loop.complaints
        finally:
            # A process that is gone touches nothing.
            self.disk.touch, self.disk.heard = lambda: None, lambda rows: None
            self.loop.call_off()
            self.loop.close()
            self.parts.learner_thread.shutdown()
        return how

    def _ended_by(self, run: Callable[["asyncio.Task[Any]"], Any]) -> str:
        assert self._main is not None
        try:
            run(self._main)
        except KilledError:
            return "killed"
        except asyncio.CancelledError:
            return "cancelled"
        except RunStoppedError:
            newest = self.disk.newest
            assert newest is not None and newest.commit == self.disk.commits[-1].number, "a stop saves all"
            return "stopped"
        except ScorerError:
            return "scorer"
        except NoProgressError:
            return "no progress"
        except RuntimeRunError as error:
            assert self.plan.refusals and "serves" in str(error), error
            return "refused"
        return "finished"

    def _go_on(self) -> Progress | None:
        self.disk.abandon_later()
        newest = self.disk.newest
        return None if newest is None else read_progress(newest)

    def _parts(self, number: int) -> LoopParts:
        plan, progress = self.plan, self.progress
        thread = ThreadPoolExecutor(max_workers=1)
        learner = CountingLearner(0 if progress is None else progress.update)
        shelf = WeightShelf()
        version = 0 if progress is None else progress.step
        scripted = ScriptedEngine(self.outside.reply, version=version, refused_versions=self.refused)
        engine = self.outside.engine = WatchedEngine(scripted, shelf, version)
        rule = PublicationRule(swap=plan.swap, tolerated_refusals=plan.tolerated_refusals)
        listener = Quiet()
        channel = WeightChannel(learner, engine, shelf, thread, rule=rule, warn=listener.warned)
        counter = GroupCounter(0 if progress is None else progress.next_group)
        ledger = Ledger(self._now, None if progress is None else progress.balance)

        async def evaluate(step: int) -> Evaluation:
            counter.take()
            assert channel.published == step
            await asyncio.sleep(self.outside.seconds(1.0))
            return Evaluation(
                protocol="p", success=0.5, low=0.0, high=1.0, num_tasks=1, num_samples=1, rows=(), trajectories=()
            )

        return LoopParts(
            folder=cast(RunFolder, self.disk),
            stages=self._stages(counter, ledger),
            learner=learner,
            learner_thread=thread,
            channel=channel,
            probe=None,
            watchdog=None,
            book=TimeBook(self.loop.time),
            counter=counter,
            ledger=ledger,
            evaluate=evaluate,
            checkpoints=CheckpointRule(every=plan.checkpoint_every, keep=2, keep_every=0),
            observer=listener,
            shutdown=Shutdown(listener.warned),
            now=self._now,
            success_threshold=1.0,
        )

    def _stages(self, counter: GroupCounter, ledger: Ledger) -> tuple[Stage, ...]:
        plan = self.plan

        def sampled(first_version: int) -> Collector:
            return Dispatcher(
                plan.rules(first_version),
                order=make_order(),
                counter=counter,
                ledger=ledger,
                run_episode=self._within_bounds(ledger),
                score=self.outside.score,
            )

        def played(first_version: int) -> Collector:
            episode: EpisodeFn = self.outside.demonstrate
            return DemonstrationCollector(
                stage="warm", batch_size=2, order=make_order(), counter=counter, run_episode=episode
            )

        rl = score_function("centered", credit=center_within_group, weights=TokenMean())
        warm = Stage(
            name="warm",
            kind="supervised",
            steps=plan.warm_steps,
            objective=supervised(),
            eligible=DEMONSTRATION,
            rules=BatchRules(max_lag=0),
            collector=played,
            begin=lambda: None,
            evaluate_every=0,
        )
        sampling = Stage(
            name="rl",
            kind="rl",
            steps=plan.steps,
            objective=rl,
            eligible=POLICY,
            rules=BatchRules(max_lag=plan.max_lag, stale_unit="segment" if plan.over_lag == "mask" else "trajectory"),
            collector=sampled,
            begin=lambda: None,
            evaluate_every=plan.evaluate_every,
        )
        return (warm, sampling) if plan.warm_steps else (sampling,)

    def _within_bounds(self, ledger: Ledger) -> LegFn:
        async def run(attempt: Attempt) -> Any:
            held = ledger.balance().by_state
            held = held.get("in_flight", 0) + held.get("ready", 0)
            assert held <= self.plan.most_open, f"{held} slots are open; {self.plan.most_open} may be"
            return await self.outside.run_episode(attempt)

        return run

    def _by_chance(self, number: int) -> frozenset[int]:
        share = 0.0 if self.ending is None else self.plan.refusals
        versions = range(1, self.plan.total_steps + 1)
        return frozenset(v for v in versions if hash((self.plan.seed, v, number)) % 1000 < 1000 * share)

    def _now(self) -> datetime:
        return NOON + timedelta(seconds=self.loop.time())

    def _duration(self, executor: object) -> float:
        return self.outside.seconds(self.plan.disk_s if executor is None else self.plan.learner_s)

    def _after_call(self, number: int) -> None:
        if self.ending is None or number != self.ending.at or self._main is None:
            return
        match self.ending.kind:
            case "kill":
                raise KilledError
            case "cancel":
                self._main.cancel()
            case "stop":
                self.parts.shutdown.request(self._main.cancel)
            case _:
                pass

    def _touch(self) -> None:
        self._touches += 1
        if self.ending is not None and self.ending.kind == "power" and self._touches == self.ending.at:
            raise KilledError


def simulate(plan: Plan, scratch: Path) -> Told:
    """Every process of the plan, then one that nothing ends; the account is checked after each of them."""
    disk = Disk(scratch)
    told = Told()
    for number, ending in enumerate((*plan.endings, None)):
        process = Process(plan, disk, number, ending)
        how = process.run()
        told.endings[how] += 1
        told.calls += process.loop.calls
        told.seconds += process.loop.time()
        _check(disk, told)
        if how == "finished":
            told.is_finished = True
            assert disk.commits[-1].step == plan.total_steps
            assert [c.step for c in disk.commits] == list(range(plan.total_steps + 1)), "a step is missing or twice"
            break
    return told


def _check(disk: Disk, told: Told) -> None:
    """At each checkpoint that stands, the rows up to it give its balance; at the newest, each draw its end."""
    account = Account()
    saved = {checkpoint.commit: checkpoint for checkpoint in disk.saved}
    progress: Progress | None = None
    for one in disk.written:
        account.add(one.rows.ledger)
        checkpoint = saved.get(one.commit.number)
        if checkpoint is not None:
            progress = read_progress(checkpoint)
            account.check(progress)
            if progress.collector.order is not None and account.tasks:
                account.check_draws(sequences(), progress)
    told.steps = len(disk.written)
    told.slots = Counter(account.states.values())
