"""A whole loop without a model: a learner that changes nothing, an engine from a script, and a log of what happened."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import current_thread
from typing import Literal

from rollwright.algorithms import (
    Objective,
    center_within_group,
    score_function,
    supervised,
)
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.batches import BatchRules, ReferenceScores, StepBatch, UpdateOutcome, UpdatePlan, plan_updates
from rollwright.engines.scripted import ScriptedEngine
from rollwright.evaluation import Evaluation
from rollwright.evidence import RunFolder
from rollwright.record import Group, ScoredTrajectory, Trajectory, WeightsManifest
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.demonstrations import DemonstrationCollector
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.loop import LoopParts, Stage
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.runtime.parts import Attempt, Collected, Collector, CollectorState, EpisodeFn, GroupCounter, ScoreFn
from rollwright.runtime.saving import CheckpointRule
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.timebook import TimeBook
from rollwright.runtime.weights import WeightChannel, WeightShelf
from tests.batches.episodes import DEMONSTRATION, POLICY, outcome_of
from tests.evidence.runs import manifest
from tests.runtime.fakes import demonstrated, ended, episodes, noon, numbered_tasks, score

KEEP_ALL = CheckpointRule(every=1, keep=50, keep_every=0)
Log = list[tuple[str, int]]
"""What happened, in order, each with its step."""


class StillLearner:
    """Makes the updates of a step and changes nothing; its weights are the number of updates made."""

    def __init__(self, log: Log, folder: RunFolder, *, accumulation: int = 1) -> None:
        self._log = log
        self._folder = folder
        self._accumulation = accumulation
        self.updates = 0
        self.micro_batches = 0
        self.threads: set[str] = set()
        self.on_train: Callable[[int], None] = lambda step: None
        """Called as each step is trained, in the learner's thread."""
        self.is_idle = False
        """Whether every update is skipped."""

    def score_before_credit(self, draft: StepBatch, objective: Objective) -> StepBatch:
        assert not objective.before_credit, "no objective of these tests reads a score before credit"
        return draft

    def score_reference(self, batch: StepBatch) -> ReferenceScores:
        raise AssertionError("no stage of these tests measures the distance to a reference")

    def train(
        self, batch: StepBatch, objective: Objective, *, first_update: int
    ) -> Sequence[tuple[UpdatePlan, UpdateOutcome]]:
        self._note("train", batch.step)
        self.on_train(batch.step)
        assert first_update == self.updates + 1
        plans = plan_updates(batch, objective, first_update=first_update, num_minibatches=1)
        self.micro_batches += self._accumulation * len(plans)
        self.updates += len(plans)
        outcomes = [outcome_of(plan, objective) for plan in plans]
        if self.is_idle:
            outcomes = [replace(o, is_applied=False, skipped_reason="no trainable token") for o in outcomes]
        return list(zip(plans, outcomes, strict=True))

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        self._note("publish", version)
        assert update == self.updates
        return WeightsManifest(
            policy="policy",
            version=version,
            update=update,
            kind="full",
            base_version=None,
            location=f"memory:{version}",
            tensors=(),
        )

    def weights(self) -> Mapping[str, object]:
        self.threads.add(current_thread().name)
        return {"updates": self.updates}

    def snapshot(self) -> Callable[[Path], None]:
        self.threads.add(current_thread().name)
        updates = self.updates

        def write(folder: Path) -> None:
            self._log.append(("save", self._folder.commits[-1].step))
            (folder / "updates.txt").write_text(str(updates), encoding="utf-8")

        return write

    def _note(self, what: str, step: int) -> None:
        self.threads.add(current_thread().name)
        self._log.append((what, step))


class LoggedCollector:
    """Passes everything on, and notes when a batch is settled and when the next may start."""

    def __init__(self, inner: Collector, log: Log) -> None:
        self._inner = inner
        self._log = log
        self._step = 0

    @property
    def needs_policy(self) -> bool:
        return self._inner.needs_policy

    async def run(self) -> None:
        await self._inner.run()

    async def collect(self, step: int) -> Collected:
        self._step = step
        self._log.append(("collect", step))
        return await self._inner.collect(step)

    def settle(self, step: int, groups: Sequence[Group]) -> None:
        self._log.append(("settle", step))
        self._inner.settle(step, groups)

    def leftovers(self) -> tuple[ScoredTrajectory, ...]:
        return self._inner.leftovers()

    def advance(self) -> None:
        self._log.append(("advance", self._step))
        self._inner.advance()

    def state(self) -> CollectorState:
        return self._inner.state()

    def restore(self, state: CollectorState) -> None:
        self._inner.restore(state)


@dataclass
class Listener:
    """Keeps what it heard."""

    log: Log
    steps: list[StepReport] = field(default_factory=list[StepReport])
    stages: list[StageStarted] = field(default_factory=list[StageStarted])
    evaluations: list[EvaluationReport] = field(default_factory=list[EvaluationReport])
    warnings: list[str] = field(default_factory=list[str])

    def run_started(self, report: RunStarted) -> None:
        pass

    def stage_started(self, report: StageStarted) -> None:
        self.stages.append(report)

    def step_finished(self, report: StepReport) -> None:
        self.log.append(("report", report.step))
        self.steps.append(report)

    def evaluating(self, report: EvaluationProgress) -> None:
        pass

    def evaluated(self, report: EvaluationReport) -> None:
        self.evaluations.append(report)

    def warned(self, sentence: str) -> None:
        self.warnings.append(sentence)


@dataclass
class World:
    """The parts of one loop, and what they wrote down."""

    folder: RunFolder
    log: Log
    learner: StillLearner
    engine: ScriptedEngine
    listener: Listener
    shutdown: Shutdown
    counter: GroupCounter
    ledger: Ledger
    thread: ThreadPoolExecutor
    channel: WeightChannel

    def parts(self, stages: Sequence[Stage], *, checkpoints: CheckpointRule = KEEP_ALL) -> LoopParts:
        return LoopParts(
            folder=self.folder,
            stages=tuple(stages),
            learner=self.learner,
            learner_thread=self.thread,
            channel=self.channel,
            probe=None,
            watchdog=None,
            book=TimeBook(lambda: 0.0),
            counter=self.counter,
            ledger=self.ledger,
            evaluate=self._evaluate,
            checkpoints=checkpoints,
            observer=self.listener,
            shutdown=self.shutdown,
            now=noon,
            success_threshold=1.0,
        )

    def stage(
        self,
        collector: Callable[[int], Collector],
        *,
        steps: int,
        kind: Literal["supervised", "rl"] = "rl",
        name: str | None = None,
        evaluate_every: int = 0,
    ) -> Stage:
        is_rl = kind == "rl"
        return Stage(
            name=name or kind,
            kind=kind,
            steps=steps,
            objective=score_function("centered", credit=center_within_group, weights=TokenMean())
            if is_rl
            else supervised(),
            eligible=POLICY if is_rl else DEMONSTRATION,
            rules=BatchRules(max_lag=0),
            collector=lambda first: LoggedCollector(collector(first), self.log),
            begin=lambda: self.log.append((f"begin {name or kind}", 0)),
            evaluate_every=evaluate_every,
        )

    async def _evaluate(self, step: int) -> Evaluation:
        await asyncio.sleep(0)
        assert self.channel.published == step
        self.log.append(("evaluate", step))
        return Evaluation(
            protocol="held-out",
            success=step / 100,
            low=0.0,
            high=1.0,
            num_tasks=1,
            num_samples=1,
            rows=(),
            trajectories=(),
        )


def make_world(
    path: Path, *, refused_versions: frozenset[int] = frozenset(), accumulation: int = 1, first_group: int = 0
) -> World:
    """A new run folder and the parts around it; close with `end`."""
    tokenizer = path.parent / "tokenizer"
    tokenizer.mkdir(exist_ok=True)
    (tokenizer / "tokenizer.json").write_text("{}", encoding="utf-8")
    folder = RunFolder.create(path, manifest(), "[run]\n", tokenizer=tokenizer)
    log: Log = []
    learner = StillLearner(log, folder, accumulation=accumulation)
    engine = ScriptedEngine(lambda request: (), version=0, refused_versions=refused_versions)
    listener = Listener(log=log)
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")
    return World(
        folder=folder,
        log=log,
        learner=learner,
        engine=engine,
        listener=listener,
        shutdown=Shutdown(listener.warned),
        counter=GroupCounter(first_group),
        ledger=Ledger(noon),
        thread=thread,
        channel=WeightChannel(learner, engine, WeightShelf(), thread),
    )


def end(world: World) -> None:
    world.thread.shutdown()
    world.folder.close()


def rl(
    world: World,
    *,
    steps: int,
    run_episode: EpisodeFn | None = None,
    score_with: ScoreFn = score,
    evaluate_every: int = 0,
    slots: int = 2,
) -> Stage:
    """A stage that samples `slots` slots a step in groups of two; the version that serves is the newest published."""

    def fresh(attempt: Attempt) -> Trajectory:
        return ended(attempt, version=world.channel.published or 0)

    def collector(first_version: int) -> Collector:
        return Dispatcher(
            DispatchRules(
                stage="rl",
                admission=AdmissionRule(batch_slots=slots, group_size=2, max_lag=0),
                max_attempts=2,
                concurrency=4,
                incomplete="train",
                first_version=first_version,
            ),
            order=numbered_tasks(),
            counter=world.counter,
            ledger=world.ledger,
            run_episode=run_episode or episodes(fresh),
            score=score_with,
        )

    return world.stage(collector, steps=steps, evaluate_every=evaluate_every)


def warm_start(world: World, *, steps: int, run_episode: EpisodeFn | None = None) -> Stage:
    """A stage of demonstrations, two a step."""

    def collector(first_version: int) -> Collector:
        return DemonstrationCollector(
            stage="supervised",
            batch_size=2,
            order=numbered_tasks(),
            counter=world.counter,
            run_episode=run_episode or episodes(demonstrated),
        )

    return world.stage(collector, steps=steps, kind="supervised")
