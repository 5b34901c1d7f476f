"""Runs a protocol with the weights that serve, and measures what came of it.

Every task counts once whatever else runs; attempts that failed by no fault of the policy are repeated, then counted as
unscored and left out of every mean.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rollwright.evaluation.measures import Beside, measure
from rollwright.evaluation.outcomes import Baseline
from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.record import EvaluationRow, Lineage, ScoredTrajectory, Task, Trajectory, unscored

__all__ = ["Evaluation", "EvaluationAttempt", "Harness", "evaluate"]

_MAX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationAttempt:
    """One try at one sample of one held-out task."""

    group_id: int
    sample: int
    attempt: int
    task: Task
    lineage: Lineage | None = None
    parent_trajectory_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluation:
    """What one evaluation measured, and its episodes."""

    protocol: str
    success: float | None
    """None where every attempt went unscored; the bounds also where they are undefined."""
    low: float | None
    high: float | None
    num_tasks: int
    num_samples: int
    rows: tuple[EvaluationRow, ...]
    trajectories: tuple[ScoredTrajectory, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Harness:
    """How the episodes of an evaluation are run, judged and read."""

    take_group: Callable[[], int]
    """Gives a fresh group id for each task, in the protocol's order."""
    run_episode: Callable[[EvaluationAttempt], Awaitable[Trajectory]]
    """Runs one attempt; bounded by the wiring, never by this room."""
    score: Callable[[Sequence[Trajectory]], Awaitable[Sequence[ScoredTrajectory]]]
    """Scores the finished episodes of a task, by the gold verifier too where the protocol names one."""
    now: Callable[[], datetime]
    """Stamps the rows."""
    read_answer: Callable[[Trajectory], str | None] | None = None
    """The canonical answer of an episode, for votes, where no verifier says what it read; None: there is none."""
    baseline: Baseline | None = None
    """An earlier checkpoint under the same protocol; None: there is none, or this is it."""


async def evaluate(protocol: EvaluationProtocol, harness: Harness, *, step: int) -> Evaluation:
    """Attempt every task of the protocol and measure.

    Args:
        protocol: what is held fixed.
        harness: how episodes come to be.
        step: the step whose weights serve; also their policy version.
    """
    groups = [harness.take_group() for _ in protocol.tasks]

    async def settle(group_id: int, task: Task) -> list[ScoredTrajectory]:
        async with asyncio.TaskGroup() as samples:
            running = [
                samples.create_task(
                    _tries(EvaluationAttempt(group_id=group_id, sample=n, attempt=0, task=task), harness.run_episode),
                    name=f"evaluation {group_id} sample {n}",
                )
                for n in range(protocol.samples)
            ]
        tries = [t for task_ in running for t in task_.result()]
        scored = {s.trajectory_id: s for s in await harness.score([t for t in tries if t.terminal_reason.is_trainable])}
        return [
            scored[t.trajectory_id] if t.terminal_reason.is_trainable else unscored(t, str(t.terminal_reason))
            for t in tries
        ]

    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(settle(group_id, task), name=f"evaluation of {task.task_id}")
            for group_id, task in zip(groups, protocol.tasks, strict=True)
        ]
    members = tuple(m for task_ in running for m in task_.result())
    answers = _answers(protocol, members, harness.read_answer)
    beside = Beside(answers=answers, baseline=harness.baseline)
    return _evaluation(protocol, members, measure(protocol, members, beside, step=step, now=harness.now()))


def _answers(
    protocol: EvaluationProtocol,
    members: Sequence[ScoredTrajectory],
    read: Callable[[Trajectory], str | None] | None,
) -> dict[str, str | None]:
    """The canonical answer of each episode: as its verifiers read it, else as `read` does."""
    judged = {
        member.trajectory_id: verdict.canonical.text
        for member in members
        for verdict in reversed(member.verdicts)
        if verdict.verifier != protocol.gold_verifier
        and verdict.canonical is not None
        and verdict.canonical.kind == "answer"
    }
    if judged or read is None:
        # What a verifier that reads answers could not read is no answer.
        return {member.trajectory_id: judged.get(member.trajectory_id) for member in members} if judged else {}
    return {member.trajectory_id: read(member.trajectory) for member in members}


async def _tries(
    first: EvaluationAttempt, run_episode: Callable[[EvaluationAttempt], Awaitable[Trajectory]]
) -> list[Trajectory]:
    """The first attempt, and those after accidents; what the policy spoiled is not tried again."""
    tries = [await run_episode(first)]
    while not tries[-1].terminal_reason.is_trainable and len(tries) < _MAX_ATTEMPTS:
        parent = tries[-1].trajectory_id
        again = replace(first, attempt=len(tries), lineage="retry_of", parent_trajectory_id=parent)
        tries.append(await run_episode(again))
    return tries


def _evaluation(
    protocol: EvaluationProtocol, members: tuple[ScoredTrajectory, ...], rows: tuple[EvaluationRow, ...]
) -> Evaluation:
    success = next(r for r in rows if r.metric == "success" and not r.labels)
    return Evaluation(
        protocol=protocol.name,
        success=success.value,
        low=success.low,
        high=success.high,
        num_tasks=success.num_tasks,
        num_samples=protocol.samples,
        rows=rows,
        trajectories=members,
    )
