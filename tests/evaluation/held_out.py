"""Held-out tasks, a protocol over them, and episodes that end as told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from rollwright.evaluation import EvaluationAttempt, EvaluationProtocol
from rollwright.record import (
    EvaluationRow,
    GradingError,
    Sampling,
    ScoredTrajectory,
    Task,
    TerminalReason,
    Trajectory,
    Verdict,
    unscored,
)
from rollwright.runtime.parts import Attempt
from tests.runtime.fakes import NOON, CallStatus, ended, with_calls


def noon() -> datetime:
    return NOON


def held_out(number: int, *, part: str | None = None) -> Task:
    info = "{}" if part is None else f'{{"slice":"{part}"}}'
    return Task(
        task_id=f"made/{number:016x}",
        source="made",
        revision="1",
        split="held_out",
        payload=f'{{"answer":"{number}","info":{info},"question":"what is {number}?"}}',
    )


def protocol(tasks: Sequence[Task] | int = 2, **changes: Any) -> EvaluationProtocol:
    given: dict[str, Any] = {
        "name": "held-out",
        "tasks": tuple(held_out(n) for n in range(tasks)) if isinstance(tasks, int) else tuple(tasks),
        "samples": 1,
        "sampling": Sampling(),
        "max_turns": 2,
        "max_turn_tokens": 8,
        "max_episode_tokens": 32,
        "environment_revision": "environment-1",
        "reward_rule": "rule-1",
        "rendering_revision": "rendering-1",
        "success_threshold": 1.0,
        "level": 0.95,
        "seed": 0,
    }
    return EvaluationProtocol(**{**given, **changes})


def episode(attempt: EvaluationAttempt, reason: TerminalReason = TerminalReason.MODEL_END) -> Trajectory:
    return ended(
        Attempt(
            purpose="evaluation",
            stage="evaluation",
            group_id=attempt.group_id,
            slot=attempt.sample,
            attempt=attempt.attempt,
            task=attempt.task,
        ),
        reason,
        cause="the tool server died" if reason is TerminalReason.INFRASTRUCTURE_FAILURE else None,
    )


def scored(
    number: int,
    outcome: float | str,
    *,
    sample: int = 0,
    part: str | None = None,
    calls: Sequence[CallStatus] = (),
    reason: TerminalReason = TerminalReason.MODEL_END,
) -> ScoredTrajectory:
    """Sample `sample` of task `number`, with its reward or why it has none."""
    task = held_out(number, part=part)
    trajectory = episode(EvaluationAttempt(group_id=number, sample=sample, attempt=0, task=task), reason)
    trajectory = with_calls(trajectory, calls)
    if isinstance(outcome, str):
        return unscored(trajectory, outcome)
    return ScoredTrajectory(
        trajectory=trajectory,
        verdicts=(),
        outcome=outcome,
        reward_rule="rule-1",
        reward_components=(),
        verifying_s=0.0,
    )


def judged(member: ScoredTrajectory, *, gold: float | GradingError) -> ScoredTrajectory:
    """The same, with what a second verifier named `gold` said of it."""
    verdict = Verdict(
        trajectory_id=member.trajectory_id, verifier="gold", revision="1", scope="trajectory", outcome=gold
    )
    return replace(member, verdicts=(*member.verdicts, verdict))


def row_of(rows: Sequence[EvaluationRow], metric: str, **labels: str) -> EvaluationRow:
    """The only row of a metric with exactly these labels."""
    (row,) = [r for r in rows if r.metric == metric and dict(r.labels) == labels]
    return row
