"""The numbers that gates are judged by, from the committed tables of a run and nothing else.

Each comes with the question that gives it, or with the sentence that says why there is none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never, cast

import duckdb
import numpy as np
from numpy.typing import NDArray

from rollwright.evaluation.gates_declared import (
    AuditSubject,
    EvaluationSubject,
    KeptAuditSubject,
    MetricSubject,
    PairedSubject,
    Since,
    StageSteps,
    Subject,
)
from rollwright.evidence import StoredEvaluation
from rollwright.record.gates import Measured
from rollwright.statistics import Interval, clustered_interval, paired_t_interval, wilson_interval

__all__ = ["JudgedRun", "measured"]

_SHARES = ("disagreement", "false_accepts")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRun:
    """A run as gates look at it."""

    connection: duckdb.DuckDBPyConnection
    """To its committed tables."""
    step: int
    """After which it is judged."""
    rl: StageSteps
    protocol_sha256: str
    """Of the run's own protocol."""
    protocols: Mapping[str, str]
    """Digests of all protocols that the run was begun with, by name: whoever gives another one such a name measures
    something else."""
    evaluations: tuple[StoredEvaluation, ...]
    """By that protocol, in the order committed; the first of a step counts: asking again is no second chance."""
    success_at: float
    level: float
    """Of intervals that are made here."""


def measured(run: JudgedRun, subject: Subject) -> Measured:
    """The number that a gate asks for."""
    match subject:
        case MetricSubject():
            return _of_metric(run, subject)
        case EvaluationSubject():
            return _of_evaluation(run, subject)
        case PairedSubject():
            return _of_pairs(run, subject)
        case AuditSubject():
            return _of_audit(run, subject)
        case KeptAuditSubject():
            return _of_kept_audit(run, subject)
        case _:
            assert_never(subject)


def _of_metric(run: JudgedRun, subject: MetricSubject) -> Measured:
    first, last = run.rl.first, min(run.rl.last, run.step)
    if subject.over == "change" and subject.since == "start":
        first = 1
    least = {"mean": subject.window, "change": 2 * subject.window, "slope": 2}.get(subject.over, 1)
    # An extreme is one of all updates; what is followed from step to step is what the last of them says.
    of_step = f"{subject.over}(value)" if subject.over in ("max", "min") else "arg_max(value, update)"
    series = (
        f"WITH series AS (SELECT step, {of_step} AS value FROM metrics "
        f"WHERE name = {_text(subject.metric)} AND {_metric_labels(subject.labels)} AND value IS NOT NULL "
        f"AND step BETWEEN {first} AND {last} GROUP BY step)"
    )
    sql = f"{series} SELECT {_taken(subject)} AS value, count(*) AS steps FROM series"
    ((value, steps),) = cast("list[tuple[float | None, int]]", run.connection.execute(sql).fetchall())
    used = {"last": 1, "mean": subject.window, "change": 2 * subject.window}.get(subject.over, steps)
    if steps < least or value is None or math.isnan(value):
        has = f"{steps} of the steps {first} to {last} have a value of {subject.metric}{_said(subject.labels)}"
        why = f"{has}, and the gate takes {least}" if steps < least else f"{has}, and they come to no number"
        return Measured(value=None, num_items=steps, source=why)
    return Measured(value=value, num_items=used, source=sql)


def _taken(subject: MetricSubject) -> str:
    # In an order that no thread decides: the last bits of a sum hang on it.
    mean = "(SELECT avg(value ORDER BY step) FROM (SELECT step, value FROM series ORDER BY step{} LIMIT {}))"
    last, first = mean.format(" DESC", subject.window), mean.format("", subject.window)
    match subject.over:
        case "last":
            return "arg_max(value, step)"
        case "mean":
            return last
        case "max" | "min":
            return f"{subject.over}(value)"
        case "slope":
            return "regr_slope(value, step ORDER BY step)"
        case "change":
            return f"{last} - {first}"
        case _:
            assert_never(subject.over)


def _of_evaluation(run: JudgedRun, subject: EvaluationSubject) -> Measured:
    sha256 = run.protocols.get(subject.protocol) if subject.protocol else run.protocol_sha256
    if sha256 is None:
        why = (
            f"the run was begun without a protocol {subject.protocol} (it has {', '.join(run.protocols)}), and one "
            "that was not fixed before the run says nothing"
        )
        return Measured(value=None, num_items=0, source=why)
    wanted = " AND ".join(
        [f"cardinality(labels) = {len(subject.labels)}", *(_label(n, v) for n, v in sorted(subject.labels.items()))]
    )
    sql = (
        f"SELECT value, low, high, level, num_tasks FROM evaluations WHERE step = {run.step} AND "
        f"protocol_sha256 = {_text(sha256)} AND metric = {_text(subject.measure)} AND {wanted} "
        "AND value IS NOT NULL ORDER BY recorded_at, evaluation LIMIT 1"
    )
    found = run.connection.execute(sql).fetchall()
    if not found:
        protocol = subject.protocol or "the run's own protocol"
        what = f"{subject.measure}{_said(subject.labels)} under {protocol}"
        why = f"step {run.step} has no {what}; `rollwright eval` adds it"
        return Measured(value=None, num_items=0, source=why)
    value, low, high, level, num_tasks = cast("tuple[float, float | None, float | None, float, int]", found[0])
    if subject.by == "value":
        return Measured(value=value, num_items=num_tasks, source=sql)
    if low is None or high is None:
        why = f"{subject.measure} has no interval ({num_tasks} tasks); by = 'value' takes the number alone"
        return Measured(value=None, num_items=num_tasks, source=why)
    if subject.by == "interval":
        # Stored in single precision: 0.95 comes back as 0.949999988.
        return Measured(value=value, low=low, high=high, level=round(level, 6), num_items=num_tasks, source=sql)
    return Measured(value=low if subject.by == "low" else high, num_items=num_tasks, source=sql)


def _of_pairs(run: JudgedRun, subject: PairedSubject) -> Measured:
    base = _base_step(run, subject.since)
    if base is None or base >= run.step:
        why = "no evaluation" if base is None else f"the evaluation of step {base} and none later"
        return Measured(value=None, num_items=0, source=f"there is {why} to compare step {run.step} with")
    before, after = (_task_scores(run, step, subject) for step in (base, run.step))
    tasks = sorted(before.keys() & after.keys())
    deltas = np.array([after[task] - before[task] for task in tasks], dtype=np.float64)
    what = f"mean over tasks of {subject.measure} at step {run.step} minus that at step {base}, of the run's protocol"
    if len(tasks) < 2:
        return Measured(value=None, num_items=len(tasks), source=f"{len(tasks)} tasks have a score in both: {what}")
    interval = paired_t_interval(deltas, level=run.level)
    mean = float(deltas.mean())
    if interval is None and subject.measure == "success":
        # No task differs from another: how many might, that were not drawn?
        most = wilson_interval(0, len(tasks), level=run.level).high
        interval = Interval(low=max(-1.0, mean - most), high=min(1.0, mean + most), level=run.level, method="wilson")
    return _with(mean, interval, len(tasks), what)


def _of_audit(run: JudgedRun, subject: AuditSubject) -> Measured:
    # The first scoring counts: asking the verifier again, by another revision, is no second chance.
    said = (
        "SELECT trajectory_id, arg_min(value, scoring) AS said FROM verdicts "
        f"WHERE verifier = {_text(subject.verifier)} AND value IS NOT NULL GROUP BY trajectory_id"
    )
    accepts, agrees = f"t.reward >= {run.success_at!r}", f"v.said >= {subject.accepts_at!r}"
    figure = {
        "disagreement": f"(({accepts}) <> ({agrees}))::DOUBLE",
        "false_accepts": f"(NOT ({agrees}))::DOUBLE",
        "hack_gap": "t.reward - v.said",
    }[subject.figure]
    only = f" AND {accepts}" if subject.figure == "false_accepts" else ""
    by_task = (
        f"SELECT t.task_id, avg({figure} ORDER BY t.trajectory_id) AS value "
        f"FROM trajectories t JOIN ({said}) v USING (trajectory_id) WHERE t.purpose = 'evaluation' "
        f"AND t.reward IS NOT NULL{only} AND {_of_own_evaluation(run)} "
        "GROUP BY t.task_id ORDER BY t.task_id"
    )
    rows = cast("list[tuple[str, float]]", run.connection.execute(by_task).fetchall())
    means = np.array([value for _, value in rows], dtype=np.float64)
    if len(means) < 2:
        why = f"verifier {subject.verifier} judged episodes of {len(means)} tasks in the evaluation of step {run.step}"
        return Measured(value=None, num_items=len(means), source=f"{why}; `rollwright score` adds its verdicts")
    sql = f"SELECT avg(value ORDER BY task_id) FROM ({by_task})"
    ((mean,),) = cast("list[tuple[float]]", run.connection.execute(sql).fetchall())
    return _with(mean, _interval(means, subject.figure, run.level), len(means), sql)


def _of_kept_audit(run: JudgedRun, subject: KeptAuditSubject) -> Measured:
    named = [f"name = {_text(f'verifier/{subject.figure}')}", f"step <= {run.step}", "value IS NOT NULL"]
    labels = [_label(name, value) for name, value in sorted(subject.labels.items())]
    of_value = [*named, "labels['audit'] IS NOT NULL", f"cardinality(labels) = {len(subject.labels) + 1}", *labels]
    sql = (
        f"SELECT value, num_items, labels['audit'] AS audit FROM metrics WHERE {_all(of_value)} "
        "ORDER BY num_items DESC, audit::INT DESC LIMIT 1"
    )
    found = run.connection.execute(sql).fetchall()
    if not found:
        what = f"verifier/{subject.figure}{_said(subject.labels)}"
        why = f"no audit up to step {run.step} is kept with {what}; `rollwright audit RUN --keep` makes one"
        return Measured(value=None, num_items=0, source=why)
    value, num_items, audit = cast("tuple[float, int, str]", found[0])
    of_bounds = [*named, _label("audit", audit), f"cardinality(labels) = {len(subject.labels) + 2}", *labels]
    bounds = dict(
        cast(
            "list[tuple[str, float]]",
            run.connection.execute(
                f"SELECT labels['bound'], value FROM metrics WHERE {_all(of_bounds)} AND labels['bound'] IS NOT NULL"
            ).fetchall(),
        )
    )
    if "upper" not in bounds:
        return Measured(value=value, num_items=num_items, source=sql)
    # Where only the upper end is known, the number itself is the lower one.
    low, high = bounds.get("lower", value), bounds["upper"]
    return Measured(value=value, low=low, high=high, level=0.95, num_items=num_items, source=sql)


def _interval(means: NDArray[np.float64], figure: str, level: float) -> Interval | None:
    """Clustered by task; a share that no task contradicts has Wilson's, for no width is no certainty."""
    mean = float(means.mean())
    if figure not in _SHARES:
        return clustered_interval(means, level=level)
    if mean in (0.0, 1.0):
        return wilson_interval(round(mean) * len(means), len(means), level=level)
    found = clustered_interval(means, level=level)
    if found is None:
        return None
    return Interval(low=max(0.0, found.low), high=min(1.0, found.high), level=level, method=found.method)


def _with(value: float, interval: Interval | None, num_items: int, source: str) -> Measured:
    if interval is None:
        return Measured(
            value=None, num_items=num_items, source=f"no interval can be made of {num_items} tasks: {source}"
        )
    return Measured(
        value=value,
        low=interval.low,
        high=interval.high,
        level=interval.level,
        num_items=num_items,
        source=source,
    )


def _base_step(run: JudgedRun, since: Since) -> int | None:
    """The first step that the run's own protocol was asked of, or the last before the RL stage."""
    steps = [one.step for one in run.evaluations]
    if since == "start":
        return min(steps, default=None)
    return max((step for step in steps if step < run.rl.first), default=None)


def _task_scores(run: JudgedRun, step: int, subject: PairedSubject) -> Mapping[str, float]:
    """Mean score of each task in the first evaluation of a step."""
    found = next((one for one in run.evaluations if one.step == step), None)
    if found is None:
        return {}
    by_task: dict[str, list[float]] = {}
    for attempt in found.attempts:
        if attempt.reward is not None:
            is_success = attempt.reward >= found.success_threshold
            score = float(is_success) if subject.measure == "success" else attempt.reward
            by_task.setdefault(attempt.task_id, []).append(score)
    return {task: float(np.mean(values)) for task, values in by_task.items()}


def _of_own_evaluation(run: JudgedRun) -> str:
    """Which episodes are those of the first evaluation of the step by the run's own protocol."""
    found = next((one for one in run.evaluations if one.step == run.step), None)
    if found is None:
        return "false"
    sql = "SELECT DISTINCT group_id FROM trajectories WHERE trajectory_id IN (SELECT unnest(?)) ORDER BY group_id"
    ids = [one.trajectory_id for one in found.attempts]
    groups = [group for (group,) in cast("list[tuple[int]]", run.connection.execute(sql, [ids]).fetchall())]
    known = frozenset(groups)
    firsts = [group for group in groups if group - 1 not in known]
    lasts = [group for group in groups if group + 1 not in known]
    ranges = (f"t.group_id BETWEEN {first} AND {last}" for first, last in zip(firsts, lasts, strict=True))
    return f"({' OR '.join(ranges) or 'false'})"


def _metric_labels(labels: Mapping[str, str]) -> str:
    parts: list[str] = []
    if "model" in labels:
        parts.append(f"cardinality(labels) = {len(labels)}")
    else:
        parts.append(f"cardinality(labels) = {len(labels)} + (labels['model'] IS NOT NULL)::INT")
        parts.append("coalesce(labels['model'], 'policy') = 'policy'")
    return _all([*parts, *(_label(name, value) for name, value in sorted(labels.items()))])


def _label(name: str, value: str) -> str:
    return f"labels[{_text(name)}] = {_text(value)}"


def _all(parts: Sequence[str]) -> str:
    return " AND ".join(parts)


def _said(labels: Mapping[str, str]) -> str:
    return f" ({', '.join(f'{name} {value}' for name, value in sorted(labels.items()))})" if labels else ""


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
