"""What is measured of the episodes of an evaluation; every number with its interval where it has one."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.record import EvaluationRow, ScoredTrajectory
from rollwright.statistics import clustered_interval, pass_at_k, task_means, wilson_interval
from rollwright.tasks import slice_of

__all__ = ["measure"]

_SHARES = frozenset({"success", "pass_at_k", "tool_use", "tool_call_validity"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    metric: str
    value: float | None
    low: float | None
    high: float | None
    method: str
    labels: Mapping[str, str]


def measure(
    protocol: EvaluationProtocol, members: Sequence[ScoredTrajectory], *, step: int, now: datetime
) -> tuple[EvaluationRow, ...]:
    """The rows of one evaluation: success, pass@k, reward, tool calls, lengths, terminal reasons, also by slice.

    Args:
        protocol: what was held fixed.
        members: every attempt of every sample, retries included; the unscored ones are counted and left out.
        step: the step whose weights served.
        now: stamps the rows.
    """
    rows: list[EvaluationRow] = []
    slices = {m.trajectory.task.task_id: slice_of(m.trajectory.task) for m in members}
    parts: list[tuple[Mapping[str, str], Sequence[ScoredTrajectory]]] = [({}, members)]
    for name in sorted(set(slices.values())) if len(set(slices.values())) > 1 else ():
        parts.append(({"slice": name}, [m for m in members if slices[m.trajectory.task.task_id] == name]))
    for labels, part in parts:
        tasks = {m.trajectory.task.task_id for m in part}
        unscored = sum(isinstance(m.outcome, str) for m in part)
        for measured in _measures(protocol, part, labels):
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
                    num_tasks=len(tasks),
                    num_trajectories=len(part),
                    num_unscored=unscored,
                    recorded_at=now,
                )
            )
    return tuple(rows)


def _measures(
    protocol: EvaluationProtocol, members: Sequence[ScoredTrajectory], labels: Mapping[str, str]
) -> Iterator[_Measured]:
    scored = [m for m in members if not isinstance(m.outcome, str)]
    tasks = [m.trajectory.task.task_id for m in scored]
    success = [float(m.outcome) >= protocol.success_threshold for m in scored]
    yield _mean_by_task("success", [float(s) for s in success], tasks, protocol.level, labels)
    yield _mean_by_task("reward", [float(m.outcome) for m in scored], tasks, protocol.level, labels)
    yield from _pass_at_k(protocol, success, tasks, labels)
    yield from _tools(scored, tasks, protocol.level, labels)
    lengths = [m.trajectory.num_action_tokens for m in scored]
    for share in (0.1, 0.5, 0.9):
        value = float(np.quantile(lengths, share)) if lengths else None
        yield _plain("response_tokens", value, {**labels, "quantile": str(share)})
    reasons = Counter(str(m.trajectory.terminal_reason) for m in members)
    for reason, count in sorted(reasons.items()):
        yield _plain("terminal_reason", count / len(members), {**labels, "reason": reason})


def _mean_by_task(
    metric: str, values: Sequence[float], tasks: Sequence[str], level: float, labels: Mapping[str, str]
) -> _Measured:
    """The mean over tasks of each task's mean, with an interval clustered by task.

    A share stays within 0 and 1. Where all of it is 0 or 1 the clustered interval has no width, which is no evidence
    of certainty: Wilson's interval over the tasks stands instead.
    """
    is_share = metric in _SHARES
    if not values:
        return _Measured(metric=metric, value=None, low=None, high=None, method="undefined", labels=labels)
    by_task: dict[str, list[float]] = {}
    for task, score in zip(tasks, values, strict=True):
        by_task.setdefault(task, []).append(score)
    means = task_means(list(by_task.values()))
    value = float(means.mean())
    if is_share and value in (0.0, 1.0):
        bounds = wilson_interval(round(value * len(means)), len(means), level=level)
    else:
        bounds = clustered_interval(means, level=level)
    if bounds is None:
        return _Measured(metric=metric, value=value, low=None, high=None, method="undefined", labels=labels)
    low, high = (max(0.0, bounds.low), min(1.0, bounds.high)) if is_share else (bounds.low, bounds.high)
    return _Measured(metric=metric, value=value, low=low, high=high, method=bounds.method, labels=labels)


def _pass_at_k(
    protocol: EvaluationProtocol, success: Sequence[bool], tasks: Sequence[str], labels: Mapping[str, str]
) -> Iterator[_Measured]:
    counts: dict[str, list[int]] = {}
    for task, hit in zip(tasks, success, strict=True):
        count = counts.setdefault(task, [0, 0])
        count[0] += 1
        count[1] += hit
    k = 1
    while k <= protocol.samples:
        able = {t: (n, c) for t, (n, c) in counts.items() if n >= k}
        values = [v for n, c in able.values() if (v := pass_at_k(n, c, k)) is not None]
        yield _mean_by_task("pass_at_k", values, list(able), protocol.level, {**labels, "k": str(k)})
        k *= 2


def _tools(
    scored: Sequence[ScoredTrajectory], tasks: Sequence[str], level: float, labels: Mapping[str, str]
) -> Iterator[_Measured]:
    numbers = [float(len(m.trajectory.tool_calls)) for m in scored]
    yield _mean_by_task("tool_calls", numbers, tasks, level, labels)
    uses = [float(n > 0) for n in numbers]
    yield _mean_by_task("tool_use", uses, tasks, level, labels)
    calls = [
        (t, float(c.status != "invalid_call"))
        for m, t in zip(scored, tasks, strict=True)
        for c in m.trajectory.tool_calls
    ]
    yield _mean_by_task("tool_call_validity", [v for _, v in calls], [t for t, _ in calls], level, labels)


def _plain(metric: str, value: float | None, labels: Mapping[str, str]) -> _Measured:
    return _Measured(metric=metric, value=value, low=None, high=None, method="none", labels=labels)
