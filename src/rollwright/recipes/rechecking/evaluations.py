"""The rows of evaluations, measured again from their stored episodes under the protocol of the recipe."""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from rollwright.evaluation import Baseline, EvaluationProtocol, outcomes_of
from rollwright.evaluation.measures import Beside, measure
from rollwright.evidence import Finding, LoadedRun
from rollwright.record import EvaluationRow, ScoredTrajectory, evaluation_reset_seed
from rollwright.record.codec import decode_evaluations

__all__ = ["evaluation_findings"]

_NOW = datetime(2000, 1, 1, tzinfo=UTC)
_CLOSE = 1e-9
_OF_ANSWERS = ("maj", "vote")
"""Metrics that need the answers as text."""


def evaluation_findings(
    run: LoadedRun,
    commits: Sequence[tuple[int, tuple[ScoredTrajectory, ...]]],
    protocols: Sequence[EvaluationProtocol],
    baseline_step: int,
) -> Iterator[Finding]:
    """Where a row is not what the episodes give: value, interval, method and counts.

    Args:
        run: as read.
        commits: number to the held-out episodes of each commit that holds any.
        protocols: of the recipe; evaluations under others are left out.
        baseline_step: of the checkpoint that later ones are compared with.
    """
    episodes = dict(commits)
    known = {protocol.sha256: protocol for protocol in protocols}
    baselines: dict[str, Baseline] = {}
    for commit, rows in _rows(run):
        for name in dict.fromkeys(row.evaluation for row in rows):
            of_name = [row for row in rows if row.evaluation == name]
            protocol = known.get(of_name[0].protocol_sha256)
            if protocol is None:
                continue
            step = of_name[0].step
            members = [
                m
                for m in episodes.get(commit, ())
                if m.trajectory.reset_seed == evaluation_reset_seed(protocol.sha256, m.trajectory.task.task_id)
            ]
            if not members:
                continue
            if step == baseline_step:
                counts = outcomes_of(protocol, members).counts
                baselines[protocol.sha256] = Baseline(step=step, counts=counts)
            baseline = baselines.get(protocol.sha256) if step > baseline_step else None
            due = measure(protocol, members, Beside(baseline=baseline), step=step, now=_NOW)
            yield from _compared(of_name, due)
            yield from _tasks(name, protocol, members)


def _rows(run: LoadedRun) -> Iterator[tuple[int, tuple[EvaluationRow, ...]]]:
    for shard in run.shards:
        if shard.table == "evaluations":
            table = run.tables["evaluations"].slice(shard.first_row, shard.num_rows).combine_chunks()
            yield shard.commit, tuple(decode_evaluations(table))


def _compared(said: Sequence[EvaluationRow], due: Sequence[EvaluationRow]) -> Iterator[Finding]:
    made: Mapping[tuple[str, tuple[tuple[str, str], ...]], EvaluationRow] = {_key(row): row for row in due}
    for row in said:
        again = made.get(_key(row))
        if again is None or row.metric.startswith(_OF_ANSWERS) or row.interval_method != again.interval_method:
            continue
        for name, left, right in (
            ("value", row.value, again.value),
            ("low", row.low, again.low),
            ("high", row.high, again.high),
            ("num_tasks", row.num_tasks, again.num_tasks),
            ("num_trajectories", row.num_trajectories, again.num_trajectories),
            ("num_unscored", row.num_unscored, again.num_unscored),
        ):
            if not _is_close(left, right):
                yield Finding(
                    place=f"evaluations {row.evaluation} {row.metric} {dict(row.labels)}",
                    text=f"{name} is {left}",
                    expected=f"{right}, measured again of its episodes",
                    concern="evaluations",
                )


def _tasks(name: str, protocol: EvaluationProtocol, members: Sequence[ScoredTrajectory]) -> Iterator[Finding]:
    """Every task of the protocol was tried as often as it says, and no other."""
    tried: dict[str, set[int]] = {task.task_id: set() for task in protocol.tasks}
    for member in members:
        tried.setdefault(member.trajectory.task.task_id, set()).add(member.trajectory.slot)
    for task_id, slots in tried.items():
        if slots != set(range(protocol.samples)):
            yield Finding(
                place=f"evaluations {name} task {task_id}",
                text=f"its samples are {sorted(slots) or 'none'}",
                expected=f"0 to {protocol.samples - 1}, as the protocol says",
                concern="evaluations",
            )


def _key(row: EvaluationRow) -> tuple[str, tuple[tuple[str, str], ...]]:
    return row.metric, tuple(sorted(row.labels.items()))


def _is_close(left: float | None, right: float | None) -> bool:
    if left is None or right is None:
        return left is right
    return math.isclose(left, right, rel_tol=_CLOSE, abs_tol=_CLOSE)
