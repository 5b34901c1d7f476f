"""What is measured of the episodes of an evaluation; every number with its interval where it has one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from rollwright.evaluation.gold import gold_measures
from rollwright.evaluation.measured import Measured, mean_by_task, plain
from rollwright.evaluation.outcomes import Baseline, Outcomes, outcomes_of
from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.evaluation.repeated import coverage, repeated_attempts, sharpened, votes
from rollwright.record import EvaluationRow, ScoredTrajectory
from rollwright.tasks import slice_of

__all__ = ["Beside", "measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """What measures need beside the scored episodes."""

    answers: Mapping[str, str | None] = field(default_factory=lambda: {})
    """Trajectory to its canonical answer; None where it gave none, nothing where episodes have no answers."""
    baseline: Baseline | None = None


def measure(
    protocol: EvaluationProtocol,
    members: Sequence[ScoredTrajectory],
    beside: Beside | None = None,
    *,
    step: int,
    now: datetime,
) -> tuple[EvaluationRow, ...]:
    """The rows of one evaluation, also by slice.

    Success, reward, gold beside proxy, repeated attempts, votes, coverage, tool calls, lengths, terminal reasons; of
    the whole also the value of more attempts and the tax on it.

    Args:
        protocol: what was held fixed.
        members: every attempt of every sample, retries included; the unscored ones are counted and left out.
        beside: answers and an earlier checkpoint, where there are any.
        step: the step whose weights served.
        now: stamps the rows.
    """
    known = beside or Beside()
    rows: list[EvaluationRow] = []
    slices = {m.trajectory.task.task_id: slice_of(m.trajectory.task) for m in members}
    parts: list[tuple[Mapping[str, str], Sequence[ScoredTrajectory]]] = [({}, members)]
    for name in sorted(set(slices.values())) if len(set(slices.values())) > 1 else ():
        parts.append(({"slice": name}, [m for m in members if slices[m.trajectory.task.task_id] == name]))
    for labels, part in parts:
        unscored = sum(isinstance(m.outcome, str) for m in part)
        for measured in _measures(protocol, part, known, labels):
            rows.append(
                EvaluationRow(
                    evaluation=f"{protocol.name}@{step}",
                    protocol=protocol.name,
                    protocol_sha256=protocol.sha256,
                    policy="policy",
                    policy_version=step,
                    step=step,
                    metric=measured.metric,
                    value=measured.value,
                    low=measured.low,
                    high=measured.high,
                    level=protocol.level,
                    interval_method=measured.method,
                    labels=measured.labels,
                    num_tasks=measured.num_tasks,
                    num_trajectories=len(part),
                    num_unscored=unscored,
                    recorded_at=now,
                )
            )
    return tuple(rows)


def _measures(
    protocol: EvaluationProtocol, members: Sequence[ScoredTrajectory], beside: Beside, labels: Mapping[str, str]
) -> Iterator[Measured]:
    outcomes = outcomes_of(protocol, members)
    level = protocol.level
    hits = [float(hit) for hit in outcomes.successes]
    rewards = [float(m.outcome) for m in outcomes.scored]
    yield mean_by_task("success", hits, outcomes.tasks, level=level, labels=labels, is_share=True)
    yield mean_by_task("reward", rewards, outcomes.tasks, level=level, labels=labels, is_share=False)
    yield from gold_measures(protocol, outcomes, labels)
    yield from repeated_attempts(protocol, outcomes, labels)
    yield from votes(protocol, outcomes, beside.answers, labels)
    yield from coverage(protocol, outcomes, labels)
    if not labels:
        yield from sharpened(protocol, outcomes, beside.baseline)
    yield from _tools(outcomes, level, labels)
    yield from _endings(members, outcomes, labels)


def _tools(outcomes: Outcomes, level: float, labels: Mapping[str, str]) -> Iterator[Measured]:
    numbers = [float(len(m.trajectory.tool_calls)) for m in outcomes.scored]
    yield mean_by_task("tool_calls", numbers, outcomes.tasks, level=level, labels=labels, is_share=False)
    uses = [float(n > 0) for n in numbers]
    yield mean_by_task("tool_use", uses, outcomes.tasks, level=level, labels=labels, is_share=True)
    calls = [
        (task, float(call.status != "invalid_call"))
        for member, task in zip(outcomes.scored, outcomes.tasks, strict=True)
        for call in member.trajectory.tool_calls
    ]
    valid, tasks = [value for _, value in calls], [task for task, _ in calls]
    yield mean_by_task("tool_call_validity", valid, tasks, level=level, labels=labels, is_share=True)


def _endings(members: Sequence[ScoredTrajectory], outcomes: Outcomes, labels: Mapping[str, str]) -> Iterator[Measured]:
    num = len(outcomes.expected)
    lengths = [m.trajectory.num_action_tokens for m in outcomes.scored]
    for share in (0.1, 0.5, 0.9):
        value = float(np.quantile(lengths, share)) if lengths else None
        yield plain("response_tokens", value, {**labels, "quantile": str(share)}, num)
    reasons = Counter(str(m.trajectory.terminal_reason) for m in members)
    for reason, count in sorted(reasons.items()):
        yield plain("terminal_reason", count / len(members), {**labels, "reason": reason}, num)
    yield plain("retried_attempts", float(sum(m.trajectory.attempt > 0 for m in members)), labels, num)
