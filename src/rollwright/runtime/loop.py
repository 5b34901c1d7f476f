"""The loop: collect, learn, publish, evaluate, commit, checkpoint; one path for every kind of stage.

    collector ──groups──► learner ──outcome──► receipts, metrics ──► evaluation? ──► saver ──► commit, checkpoint
        ▲                    │                                          ▲              └─────► observers
        └── weight channel ◄─┘                         ledger rows ─────┘

The learner's calls run in its own thread; the loop waits for the collector, the learner, the engine's load and the
write of the step before, one after the other. The collector samples meanwhile as far as the largest lag lets it. A step
is part of the run once its commit is renamed into place; a run that dies anywhere goes on from its newest complete
checkpoint, and what came later never happened.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from rollwright.algorithms.controllers import restore_states, states_of
from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.evaluation import Evaluation
from rollwright.evidence import CommitRows
from rollwright.record import LedgerRow, Metric, ScoredTrajectory
from rollwright.runtime.alarms import Observed, Raised, note_raised, pause_sentence
from rollwright.runtime.collected_metrics import restore_seconds, watchdog_restarts
from rollwright.runtime.echo_watch import EchoWatch
from rollwright.runtime.errors import NoProgressError, RunPausedError, RunStoppedError, RuntimeRunError, first_of
from rollwright.runtime.learning import Learned, Lesson, learn
from rollwright.runtime.ledger import LedgerBalance
from rollwright.runtime.loop_parts import LoopParts, RunResult, Stage
from rollwright.runtime.metrics import StepClock, StepEpisodes, step_metrics
from rollwright.runtime.observers import EvaluationReport, StageStarted
from rollwright.runtime.parts import Collected, Collector, CollectorState, GroupCounter
from rollwright.runtime.probes import probe_metrics
from rollwright.runtime.progress import EvaluationPoint, Progress
from rollwright.runtime.reporting import Reporter
from rollwright.runtime.saving import Saver, Standing
from rollwright.runtime.tool_use import ToolUseWatch

__all__ = ["Loop", "LoopParts", "RunResult", "Stage", "beginning"]

_Result = TypeVar("_Result")
_IDLE_STEPS = 5
"""Steps in a row without an update after which a run stops."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Taken:
    """Everything that a step came to, to be written."""

    collected: Collected
    learned: Learned
    probed: tuple[Metric, ...]
    ledger: tuple[LedgerRow, ...]
    evaluation: Evaluation | None
    standing: Standing | None
    """Its checkpoint; None: it has none."""


class Loop:
    """Runs the stages from a starting point to the end."""

    def __init__(self, parts: LoopParts, start: Progress | None = None) -> None:
        """`start` is what the checkpoint says; None begins a run."""
        self._parts = parts
        self._start = start
        self._at = start or beginning(parts.counter)
        self._reporter = Reporter(parts.success_threshold)
        self._idle = 0
        self._tool_use = ToolUseWatch()
        self._echo = EchoWatch()
        self._saver = Saver(
            parts.folder,
            parts.checkpoints,
            kept_steps=frozenset(sum(s.steps for s in parts.stages[:n]) for n in range(len(parts.stages))),
            judge=parts.judge,
            now=parts.now,
        )
        self._save_s = 0.0
        self._restored_s = parts.restored_s
        self._pausing: tuple[Raised, ...] = ()
        """Alarms that stop the run behind the step that is done."""

    async def run(self) -> RunResult:
        """Go through the stages.

        Raises:
            RunStoppedError: when someone asked to stop; everything up to the last step is saved.
            RunPausedError: when an alarm rose that pauses; everything up to its step is saved.
        """
        began = time.monotonic()
        stages = self._parts.stages
        try:
            if self._start is None:
                await self._in_learner(stages[0].begin)
                async with self._watched():
                    evaluation = await self._evaluate(stages[0])
                rows = CommitRows(
                    kind="step", step=0, trajectories=evaluation.trajectories, evaluations=evaluation.rows
                )
                await self._saver.save(rows, await self._standing())
                await self._saver.flush()
            for index in range(self._at.stage, len(stages)):
                await self._run_stage(stages[index])
        finally:
            await self._saver.flush()
        last_start = sum(stage.steps for stage in stages[:-1])
        points = self._at.evaluations
        return RunResult(
            steps=self._at.step,
            seconds=time.monotonic() - began,
            before=next((e for e in points if e.step == last_start), None),
            after=next((e for e in reversed(points) if e.step == self._at.step), None),
            max_mismatch=self._reporter.max_mismatch,
            num_action_tokens=self._reporter.num_tokens,
            num_episodes=self._reporter.num_episodes,
        )

    @asynccontextmanager
    async def _watched(self, **beside: Coroutine[object, object, None]) -> AsyncGenerator[None]:
        """Do it with the watchdog, and with what else is given by name, beside it; the first error of all is raised."""
        if self._parts.watchdog is not None:
            beside["watchdog"] = self._parts.watchdog.run()
        try:
            async with asyncio.TaskGroup() as background:
                tasks = [background.create_task(work, name=name) for name, work in beside.items()]
                yield
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors

    async def _run_stage(self, stage: Stage) -> None:
        first_version = self._at.step - self._at.stage_step
        collector = stage.collector(first_version)
        if self._at.stage_step:
            collector.restore(self._at.collector)
            restore_states(stage.objective, self._at.controllers)
        elif first_version:
            await self._in_learner(stage.begin)
        self._parts.observer.stage_started(
            StageStarted(stage=stage.name, kind=stage.kind, first_step=first_version + 1, num_steps=stage.steps)
        )
        if collector.needs_policy:
            await self._parts.channel.publish(version=self._at.step, update=self._at.update)
            self._check_serving(stage, self._at.step)
        try:
            async with self._watched(collector=collector.run()):
                while self._at.stage_step < stage.steps and not self._is_ending:
                    await self._run_step(stage, collector)
        except NoProgressError:
            await self._record_leftovers(collector)
            raise
        await self._end_early()
        self._at = replace(self._at, stage=self._at.stage + 1, stage_step=0, collector=CollectorState(), controllers=())

    @property
    def _is_ending(self) -> bool:
        """True where the run stops behind the step that is done."""
        return bool(self._pausing) or self._parts.shutdown.is_requested

    async def _end_early(self) -> None:
        """Save, and leave, where an alarm or a person stopped the run.

        Raises:
            RunPausedError: for the alarm, also behind the last step: what rose has to be looked at.
            RunStoppedError: for the person.
        """
        is_over = self._at.step >= sum(s.steps for s in self._parts.stages)
        if not self._pausing and (is_over or not self._parts.shutdown.is_requested):
            return
        await self._saver.flush()
        if not self._saver.is_saved:
            await self._saver.keep(await self._standing())
        if self._pausing:
            raise RunPausedError(pause_sentence(self._parts.folder, self._pausing))
        raise RunStoppedError(
            f"stopped after step {self._at.step}, which is saved; `rollwright resume` goes on from here."
        )

    async def _look(self, metrics: Sequence[Metric]) -> None:
        """Show the alarms a step of the RL stage; what rises is kept with the run once the step is."""
        parts, step = self._parts, self._at.step
        raised = parts.alarms.see(Observed(step=step, metrics=metrics))
        if not raised:
            return
        await self._saver.flush()
        note_raised(parts.folder, raised, parts.now(), in_flight=len(self._at.collector.open_groups))
        for one in raised:
            parts.observer.warned(str(one))
        self._pausing = tuple(one for one in raised if one.pauses)

    async def _record_leftovers(self, collector: Collector) -> None:
        """Keep the causes of what failed: a resumed run goes on from before them, and they stay to be read."""
        step = self._at.step + 1
        rows = self._parts.ledger.take_rows()
        await self._saver.save(
            CommitRows(kind="step", step=step, trajectories=sorted_by_id(collector.leftovers()), ledger=rows)
        )

    def _note_idle(self, step: int, members: Sequence[ScoredTrajectory], learned: Learned) -> None:
        """Stop where batch after batch holds nothing that can be trained.

        Raises:
            NoProgressError: with what became of the last episodes.
        """
        is_idle = all(not outcome.is_applied for _, outcome in learned.updates)
        self._idle = self._idle + 1 if is_idle else 0
        if self._idle >= _IDLE_STEPS:
            counts = Counter(m.outcome if isinstance(m.outcome, str) else "scored" for m in members)
            ends = Counter(str(m.trajectory.terminal_reason) for m in members)
            raise NoProgressError(
                f"no update could be made in {self._idle} steps up to step {step} "
                f"({learned.updates[-1][1].skipped_reason}). Outcomes of its episodes: {dict(counts)}; they ended with "
                f"{dict(ends)}. Mend the verifier, the environment or the limits and `rollwright resume` the run."
            )

    async def _run_step(self, stage: Stage, collector: Collector) -> None:
        parts, step, stage_step = self._parts, self._at.step + 1, self._at.stage_step + 1
        started = time.monotonic()
        with self._waiting("dispatcher", f"the batch of step {step}"):
            collected = await collector.collect(step)
        collect_s = time.monotonic() - started
        learned = await self._learned(stage, step, collected)
        is_due = stage_step == stage.steps or (stage.evaluate_every > 0 and stage_step % stage.evaluate_every == 0)
        publishing = time.monotonic()
        update = self._at.update + len(learned.updates)
        probed = await self._published(stage, collector, (step, update), is_evaluated=is_due)
        clock = StepClock(
            collect_s=collect_s,
            learn_s=learned.seconds,
            publish_s=time.monotonic() - publishing,
            save_s=self._save_s,
            parts=parts.book.take(),
        )
        collector.settle(step, collected.groups)
        # Together, before anything else may run: a resumed run goes on from all of them.
        balance, ledger_rows = parts.ledger.balance(), parts.ledger.take_rows()
        self._at = replace(
            self._at,
            step=step,
            update=update,
            stage_step=stage_step,
            next_group=parts.counter.next_id,
            collector=collector.state(),
            balance=balance,
            controllers=states_of(stage.objective),
        )
        evaluation = await self._evaluate(stage) if is_due else None
        # Before the next episodes begin: while they all start, the copy would wait for its turn, and the loop for it.
        saving = time.monotonic()
        is_kept = stage_step % parts.checkpoints.every == 0 or is_due or parts.shutdown.is_requested
        standing = await self._standing() if is_kept else None
        self._save_s = time.monotonic() - saving
        if stage_step < stage.steps:
            collector.advance()
        taken = _Taken(
            collected=collected,
            learned=learned,
            probed=probed,
            ledger=ledger_rows,
            evaluation=evaluation,
            standing=standing,
        )
        await self._save(stage, taken, clock)
        self._note_idle(step, collected.members, learned)

    async def _learned(self, stage: Stage, step: int, collected: Collected) -> Learned:
        parts = self._parts
        lesson = Lesson(
            objective=stage.objective,
            eligible=stage.eligible,
            rules=stage.rules,
            success_at=parts.success_threshold,
            measures_reference=stage.measures_reference(self._at.stage_step + 1),
        )
        call = partial(
            learn, parts.learner, lesson, collected.groups, step=step, first_update=self._at.update + 1, now=parts.now
        )
        with parts.book.doing("learner"):
            return await self._in_learner(call)

    async def _published(
        self, stage: Stage, collector: Collector, place: tuple[int, int], *, is_evaluated: bool
    ) -> tuple[Metric, ...]:
        """Let a step's weights serve where they are needed; what a probe found of them."""
        step, update = place
        if collector.needs_policy or is_evaluated:
            with self._parts.book.doing("learner", "syncing"):
                await self._parts.channel.publish(version=step, update=update)
        if not collector.needs_policy:
            return ()
        if self._at.stage_step + 1 < stage.steps:
            self._check_serving(stage, step)
        return await self._probe(step)

    async def _save(self, stage: Stage, taken: "_Taken", clock: StepClock) -> None:
        """Begin to write the step; it is told of when it is written."""
        parts, at, collected, evaluation = self._parts, self._at, taken.collected, taken.evaluation
        members = collected.members
        ended = (*members, *collected.others, *(evaluation.trajectories if evaluation else ()))
        episodes = StepEpisodes(
            members=members,
            others=collected.others,
            success_at=parts.success_threshold,
            groups=collected.groups,
            ledger=taken.ledger,
            graders=parts.graders,
            num_useful=len(taken.learned.receipts.trajectories_moved()),
        )
        measures = (*collected.measures, *parts.prompts.see(collected.groups), *self._recoveries())
        of_step = step_metrics(
            at.step, episodes, balance=at.balance.by_state, clock=clock, now=parts.now(), measures=measures
        )
        rows = CommitRows(
            kind="step",
            step=at.step,
            trajectories=sorted_by_id(ended),
            receipts=taken.learned.receipts,
            ledger=taken.ledger,
            metrics=(*taken.learned.metrics, *taken.probed, *of_step),
            evaluations=evaluation.rows if evaluation else (),
        )
        report = self._reporter.report(at, (stage.name, stage.steps), members, taken.learned, clock)
        report = replace(report, metrics=tuple(rows.metrics))
        saving = time.monotonic()
        with parts.book.doing("learner", "blocked"), self._waiting("disk", f"room for step {at.step}"):
            await self._saver.save(rows, taken.standing, lambda: parts.observer.step_finished(report))
        self._save_s += time.monotonic() - saving
        self._progressed(f"step {at.step}")
        for sentence in (*self._tool_use.see(at.step, members), *self._echo.see(at.step, members)):
            parts.observer.warned(sentence)
        if stage.kind == "rl":
            await self._look(rows.metrics)

    def _recoveries(self) -> Sequence[Diagnostic]:
        """What was made again or taken back since the step before."""
        restored_s, self._restored_s = self._restored_s, None
        dog = self._parts.watchdog
        found = [] if dog is None else [watchdog_restarts(dog.take_restarts())]
        return found if restored_s is None else [*found, restore_seconds(restored_s)]

    def _check_serving(self, stage: Stage, step: int) -> None:
        """Stop where all that could be sampled now is too old for the next step, which would wait for ever.

        Raises:
            RuntimeRunError: when refused publications left weights serving beyond the largest lag.
        """
        serving, max_lag = self._parts.channel.published, stage.rules.max_lag
        if serving is None or step - serving > max_lag:
            raise RuntimeRunError(
                f"version {serving} still serves, and step {step + 1} trains nothing older than {step - max_lag} "
                f"(runtime.max_lag is {max_lag}). Find out why the engine refuses new weights and `rollwright resume` "
                "the run, or let fewer refusals pass than the largest lag."
            )

    async def _probe(self, step: int) -> tuple[Metric, ...]:
        """Compare engine and learner on fixed contexts, where that was asked for and the step's weights serve."""
        parts = self._parts
        if parts.probe is None or parts.channel.published != step:
            return ()
        report = await parts.probe.check(step)
        if report.warning is not None:
            parts.observer.warned(report.warning)
        return probe_metrics(report, step=step, now=parts.now())

    async def _evaluate(self, stage: Stage) -> Evaluation:
        parts, at = self._parts, self._at
        began = time.monotonic()
        if await parts.channel.publish(version=at.step, update=at.update) != at.step:
            raise RuntimeRunError(
                f"the evaluation of step {at.step} needs the weights of that step, which the engine refused; version "
                f"{parts.channel.published} serves. `rollwright resume` goes on from the last saved step."
            )
        evaluation = await parts.evaluate(at.step)
        self._progressed(f"the evaluation at step {at.step}")
        point = EvaluationPoint(
            step=at.step,
            success=evaluation.success,
            low=evaluation.low,
            high=evaluation.high,
            num_tasks=evaluation.num_tasks,
        )
        self._at = replace(at, next_group=parts.counter.next_id, evaluations=(*at.evaluations, point))
        parts.observer.evaluated(
            EvaluationReport(
                step=at.step,
                stage=stage.name,
                protocol=evaluation.protocol,
                success=evaluation.success,
                low=evaluation.low,
                high=evaluation.high,
                num_tasks=evaluation.num_tasks,
                num_samples=evaluation.num_samples,
                seconds=time.monotonic() - began,
                rows=evaluation.rows,
            )
        )
        return evaluation

    async def _standing(self) -> Standing:
        with self._parts.book.doing("learner", "blocked"):
            return Standing(progress=self._at, write_learner=await self._in_learner(self._parts.learner.snapshot))

    async def _in_learner(self, call: Callable[[], _Result]) -> _Result:
        with self._waiting("learner", f"what follows step {self._at.step}"):
            return await asyncio.get_running_loop().run_in_executor(self._parts.learner_thread, call)

    def _waiting(self, component: str, what: str) -> AbstractContextManager[object]:
        dog = self._parts.watchdog
        return nullcontext() if dog is None else dog.waiting(component, what)

    def _progressed(self, what: str) -> None:
        if self._parts.watchdog is not None:
            self._parts.watchdog.progressed(what)


def sorted_by_id(ended: Sequence[ScoredTrajectory]) -> tuple[ScoredTrajectory, ...]:
    """In an order that nothing finished decides."""
    return tuple(sorted(ended, key=lambda m: m.trajectory_id))


def beginning(counter: GroupCounter) -> Progress:
    """Where a run stands before its first step."""
    return Progress(
        step=0,
        update=0,
        stage=0,
        stage_step=0,
        next_group=counter.next_id,
        collector=CollectorState(),
        balance=LedgerBalance(dispatched=0, by_state={}),
        controllers=(),
        evaluations=(),
    )
