"""What stands around the runtime: a watched engine, episodes and scores of any duration, a learner that counts."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

import numpy as np

from rollwright.algorithms import Objective
from rollwright.batches import ReferenceScores, StepBatch, UpdateOutcome, UpdatePlan, plan_updates
from rollwright.engines.passing import AskedEngine, PassingEngine
from rollwright.engines.scripted import Reply, ScriptedEngine
from rollwright.record import (
    Chunk,
    EngineLostError,
    GenerationRequest,
    Sampling,
    ScoredTrajectory,
    Segment,
    Swap,
    TerminalReason,
    Trajectory,
    WeightsManifest,
    ids,
    unscored,
)
from rollwright.rollout import Limits, Parked
from rollwright.runtime.observers import EvaluationProgress, EvaluationReport, RunStarted, StageStarted, StepReport
from rollwright.runtime.parts import Attempt
from rollwright.runtime.weights import WeightShelf
from tests.batches.episodes import outcome_of
from tests.runtime.fakes import ended, score
from tests.runtime.simulation.plans import Plan

__all__ = ["CountingLearner", "Outside", "Quiet", "ScorerError", "WatchedEngine"]

_Given = TypeVar("_Given")
_CAUSE = "the simulated world broke"


class ScorerError(Exception):
    """A scorer that falls over takes its process along."""


class Quiet:
    """An observer that keeps nothing."""

    def run_started(self, report: RunStarted) -> None:
        pass

    def stage_started(self, report: StageStarted) -> None:
        pass

    def step_finished(self, report: StepReport) -> None:
        pass

    def evaluating(self, report: EvaluationProgress) -> None:
        pass

    def evaluated(self, report: EvaluationReport) -> None:
        pass

    def warned(self, sentence: str) -> None:
        pass


class CountingLearner:
    """Its weights are the number of updates that made them."""

    def __init__(self, updates: int) -> None:
        self.updates = updates

    def score_before_credit(self, draft: StepBatch, objective: Objective) -> StepBatch:
        return draft

    def score_reference(self, batch: StepBatch) -> ReferenceScores:
        raise AssertionError("no stage of these tests measures the distance to a reference")

    def train(
        self, batch: StepBatch, objective: Objective, *, first_update: int
    ) -> Sequence[tuple[UpdatePlan, UpdateOutcome]]:
        assert first_update == self.updates + 1, "an update was lost or made twice"
        plans = plan_updates(batch, objective, first_update=first_update, num_minibatches=1)
        self.updates += len(plans)
        return [(plan, outcome_of(plan, objective)) for plan in plans]

    def manifest(self, *, version: int, update: int) -> WeightsManifest:
        assert update == self.updates, "other weights are published than those of the step"
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
        return {"updates": self.updates}

    def snapshot(self) -> Callable[[Path], None]:
        updates = self.updates

        def write(folder: Path) -> None:
            (folder / "updates.txt").write_text(str(updates), encoding="utf-8")

        return write


class WatchedEngine(PassingEngine):
    """The scripted engine; what it loads is what the learner made, and versions never go backwards."""

    def __init__(self, inner: ScriptedEngine, shelf: WeightShelf, version: int) -> None:
        super().__init__(inner)
        self._inner = inner
        self._shelf = shelf
        self._loaded = self._coming = version

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        begun_at = self._loaded
        self._inner.requests.clear()
        async for chunk in self._engine.generate(request):
            assert begun_at <= chunk.policy_version <= self._coming, "a token has a version that did not serve"
            yield chunk

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        assert self._shelf.read(weights) == {"updates": weights.update}, "weights of another step are on the shelf"
        assert weights.version >= self._loaded, f"version {weights.version} follows {self._loaded}"
        self._coming = weights.version
        try:
            await self._engine.load_weights(weights, swap)
            self._loaded = weights.version
        finally:
            self._coming = self._loaded

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        return await answer()


class Outside:
    """Episodes and scores of one process; all chance comes from the plan's seed and the process's number."""

    def __init__(self, plan: Plan, process: int) -> None:
        self._plan = plan
        self._chance = Random(plan.seed * 1_000_003 + process)
        self.engine: WatchedEngine | None = None
        self._before: Trajectory | Parked | None = None
        self.running = 0
        self.scored_groups = 0
        self.breaks_at: int | None = None
        """Groups after which the scorer raises."""

    def seconds(self, typical: float) -> float:
        """A duration around it."""
        spread = self._plan.decades / 2
        return typical * 10 ** self._chance.uniform(-spread, spread)

    def reply(self, request: GenerationRequest) -> Reply:
        """One or two tokens; now and then the engine is lost."""
        count = self._chance.randint(1, 2)
        lost = count - 1 if self._chance.random() < self._plan.failures / 2 else None
        return Reply(token_ids=[3] * count, delay_s=self.seconds(1.0) / count, lost_after=lost)

    async def run_episode(self, attempt: Attempt) -> Trajectory | Parked:
        """Some turns with tools between them, which end in any way that an episode can end."""
        self.running += 1
        assert self.running <= self._plan.concurrency, "more episodes run than there are places for"
        try:
            before = self._before
            self._before = await self._episode(attempt)
            is_twice = before is not None and self._chance.random() < self._plan.duplicates
            return before if before is not None and is_twice else self._before
        finally:
            self.running -= 1

    async def demonstrate(self, attempt: Attempt) -> Trajectory:
        """Nothing is sampled."""
        await asyncio.sleep(self.seconds(0.1))
        made = ended(attempt)
        played = replace(
            made.segments[1],
            origin="demonstration",
            behavior_logprobs=None,
            policy=None,
            policy_version=None,
            cache_version=None,
            sampling=None,
        )
        return replace(made, segments=(made.segments[0], played))

    async def score(self, trajectories: Sequence[Trajectory]) -> Sequence[ScoredTrajectory]:
        """Rewards 0 and 1 by chance, and some episodes of which the grader knows nothing."""
        await asyncio.sleep(self.seconds(0.5))
        self.scored_groups += 1
        if self.scored_groups == self.breaks_at:
            raise ScorerError("the scorer fell over")
        scored = await score(trajectories)
        return [
            unscored(one.trajectory, "grader_error")
            if self._chance.random() < self._plan.grader_errors
            else replace(one, outcome=float(self._chance.random() < 0.5))
            for one in scored
        ]

    async def _episode(self, attempt: Attempt) -> Trajectory | Parked:
        segments = list(attempt.past.trajectory.segments) if attempt.past else [ended(attempt).segments[0]]
        for turn in range(self._chance.randint(1, 2)):
            if attempt.interruption.reason is not None:
                break
            try:
                await self._turn(attempt, turn, segments)
            except EngineLostError as error:
                return _over(attempt, segments, TerminalReason.INFRASTRUCTURE_FAILURE, cause=str(error))
            await asyncio.sleep(self.seconds(0.3))
            if self._chance.random() < self._plan.failures / 4:
                return _over(attempt, segments, TerminalReason.INFRASTRUCTURE_FAILURE, cause=_CAUSE)
        match attempt.interruption.reason:
            case None:
                if attempt.at_limit == "park" and self._chance.random() < 0.3:
                    return _parked(attempt, segments, is_interrupted=False)
                return _over(attempt, segments, TerminalReason.MODEL_END)
            case TerminalReason.SUPERSEDED if self._chance.random() < 0.7:
                return _parked(attempt, segments, is_interrupted=True)
            case reason:
                return _over(attempt, segments, reason)

    async def _turn(self, attempt: Attempt, turn: int, segments: list[Segment]) -> None:
        assert self.engine is not None
        name = _over(attempt, segments, TerminalReason.MODEL_END).trajectory_id
        request = GenerationRequest(
            request_id=f"{name}/{turn}",
            policy="policy",
            session=f"{name}/0",
            context=0,
            share=str(attempt.group_id),
            token_ids=ids([1] * (segments[-1].start + segments[-1].num_tokens)),
            sampling=Sampling(),
            max_tokens=8,
            deadline_s=1e9,
            seed=0,
            stop_token_ids=frozenset(),
        )
        attempt.interruption.requests[request.request_id] = self.engine
        try:
            async for chunk in self.engine.generate(request):
                if len(chunk.token_ids):
                    segments.append(_segment(segments, chunk, turn))
        finally:
            del attempt.interruption.requests[request.request_id]


def _segment(before: Sequence[Segment], chunk: Chunk, turn: int) -> Segment:
    last = before[-1]
    return Segment(
        segment=len(before),
        parent=last.segment,
        context=0,
        start=last.start + last.num_tokens,
        origin="policy",
        actor="main",
        turn=turn,
        token_ids=np.asarray(chunk.token_ids, np.int32),
        behavior_logprobs=np.asarray(chunk.behavior_logprobs, np.float32),
        policy="policy",
        policy_version=chunk.policy_version,
        cache_version=chunk.cache_version,
        sampling=Sampling(),
    )


def _over(
    attempt: Attempt, segments: Sequence[Segment], reason: TerminalReason, *, cause: str | None = None
) -> Trajectory:
    return replace(ended(attempt, reason, cause=cause), segments=tuple(segments))


def _parked(attempt: Attempt, segments: Sequence[Segment], *, is_interrupted: bool) -> Parked:
    return Parked(
        trajectory=_over(attempt, segments, TerminalReason.SUPERSEDED),
        limits=Limits(),
        tools={},
        turns={},
        cut=frozenset(),
        results={},
        steps=(),
        open_turns=(),
        snapshot=None,
        is_interrupted=is_interrupted,
    )
