"""A stored run as records again: trajectories with their verdicts, and the groups that a step was trained on.

What `train --from RUN` trains again, a verifier scores again and a report reads.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from rollwright.evidence.commits import Commit
from rollwright.evidence.errors import EvidenceError
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import read_shard
from rollwright.record import EvaluationRow, Group, LedgerRow, Metric, Purpose, Receipt, ScoredTrajectory
from rollwright.record.codec import (
    decode_evaluations,
    decode_ledger,
    decode_metrics,
    decode_receipts,
    decode_trajectories,
)
from rollwright.record.columns import encode_rows
from rollwright.record.tables import (
    EVALUATIONS,
    LEDGER,
    METRICS,
    RECEIPTS,
    SEGMENTS,
    TASKS,
    TENSORS,
    TOOL_CALLS,
    TRAJECTORIES,
    VERDICTS,
    Table,
)

__all__ = ["StoredRun", "read_groups"]

_OF_TRAJECTORIES = (TRAJECTORIES, SEGMENTS, TENSORS, TOOL_CALLS, VERDICTS)


def read_groups(path: Path, purpose: Purpose, step: int) -> tuple[Group, ...]:
    """Groups of one step, by group id; see `StoredRun.groups`, which reads several steps faster."""
    return StoredRun(path).groups(purpose, step)


class StoredRun:
    """The committed rows of a run, read commit by commit, every file compared with its digest."""

    def __init__(self, path: Path) -> None:
        """Index the run: which commit holds which trajectory, and the ledger."""
        self.folder = RunFolder.open(path)
        self._commit_of = {
            str(name): commit
            for commit in self.folder.commits
            for name in self._table(commit, TRAJECTORIES).column("trajectory_id").to_pylist()
        }
        self._ledger = tuple(row for c in self.folder.commits for row in decode_ledger(self._table(c, LEDGER)))
        self._tasks = pa.concat_tables([_empty(TASKS), *(self._table(c, TASKS) for c in self.folder.commits)])

    @property
    def steps(self) -> tuple[int, ...]:
        """Steps that the run finished, in order."""
        return tuple(sorted({c.step for c in self.folder.commits if c.kind == "step"}))

    @property
    def ledger(self) -> tuple[LedgerRow, ...]:
        """All rows, by `seq`."""
        return self._ledger

    def groups(self, purpose: Purpose, step: int) -> tuple[Group, ...]:
        """Groups of one step, by group id.

        Args:
            purpose: `train`: groups with a slot trained in this step, each with its trained members. `demonstration`,
                `evaluation`, `audit`: what the commits of this step hold, of each slot its last attempt; a
                demonstration is a group of one.
            step: counted over all stages.

        Raises:
            EvidenceError: when the run has no such step.
        """
        if step not in {c.step for c in self.folder.commits}:
            raise EvidenceError(f"{self.folder.path} has no step {step}; it has {_ranges(self.steps)}.")
        if purpose == "train":
            return self._trained_groups(step)
        found = [
            scored
            for commit in self.folder.commits
            if commit.step == step
            for scored in self._trajectories_of(commit, None)
            if scored.trajectory.purpose == purpose
        ]
        last = {
            (t.trajectory.group_id, t.trajectory.slot): t for t in sorted(found, key=lambda t: t.trajectory.attempt)
        }
        return _grouped(list(last.values()), Counter(group_id for group_id, _ in last))

    def sampled(self, step: int) -> tuple[Group, ...]:
        """Groups by id whose episodes this step holds, ready, and no step trained: what a run left that only samples.

        Args:
            step: counted over all stages.
        """
        last = {(row.group_id, row.slot): row for row in self._ledger}
        ready = {row.trajectory_id for row in last.values() if row.state == "ready"}
        held = {name for name, commit in self._commit_of.items() if commit.step == step and name in ready}
        return _grouped(self.trajectories(sorted(held)), Counter(group_id for group_id, _ in last))

    def trajectories(self, names: Sequence[str]) -> tuple[ScoredTrajectory, ...]:
        """The trajectories of those ids, in that order.

        Raises:
            EvidenceError: for one that the run does not have.
        """
        wanted: dict[int, tuple[Commit, set[str]]] = {}
        for name in names:
            if name not in self._commit_of:
                raise EvidenceError(f"{self.folder.path} has no trajectory {name}.")
            commit = self._commit_of[name]
            wanted.setdefault(commit.number, (commit, set()))[1].add(name)
        found = {t.trajectory_id: t for commit, some in wanted.values() for t in self._trajectories_of(commit, some)}
        return tuple(found[name] for name in names)

    def receipts(self, step: int) -> tuple[Receipt, ...]:
        """All receipts of a step."""
        return tuple(r for c in self._commits(step) for r in decode_receipts(self._table(c, RECEIPTS)))

    def metrics(self, step: int) -> tuple[Metric, ...]:
        """All metrics of a step."""
        return tuple(m for c in self._commits(step) for m in decode_metrics(self._table(c, METRICS)))

    def evaluations(self) -> tuple[EvaluationRow, ...]:
        """All evaluation rows, in the order committed."""
        return tuple(r for c in self.folder.commits for r in decode_evaluations(self._table(c, EVALUATIONS)))

    def _commits(self, step: int) -> tuple[Commit, ...]:
        return tuple(c for c in self.folder.commits if c.step == step)

    def _trained_groups(self, step: int) -> tuple[Group, ...]:
        last = {(row.group_id, row.slot): row for row in self._ledger}
        trained = [row for row in last.values() if row.state == "trained" and row.step == step]
        names = [row.trajectory_id for row in sorted(trained, key=lambda r: (r.group_id, r.slot))]
        sizes = Counter(group_id for group_id, _ in last)
        return _grouped(self.trajectories([name for name in names if name is not None]), sizes)

    def _trajectories_of(self, commit: Commit, names: set[str] | None) -> tuple[ScoredTrajectory, ...]:
        tables = {table.name: _only(self._table(commit, table), names) for table in _OF_TRAJECTORIES}
        return decode_trajectories(tables | {TASKS.name: self._tasks}, self.folder.blob)

    def _table(self, commit: Commit, table: Table) -> pa.Table:
        parts = [read_shard(self.folder.path, s, table) for s in commit.shards if s.table == table.name]
        return pa.concat_tables(parts) if parts else _empty(table)


def _empty(table: Table) -> pa.Table:
    return encode_rows(table, [])


def _only(rows: pa.Table, names: set[str] | None) -> pa.Table:
    if names is None:
        return rows
    keep = [name in names for name in rows.column("trajectory_id").to_pylist()]
    return rows.filter(np.array(keep, dtype=np.bool_))


def _grouped(found: Sequence[ScoredTrajectory], sizes: Mapping[int, int]) -> tuple[Group, ...]:
    members: dict[int, list[ScoredTrajectory]] = defaultdict(list)
    for scored in found:
        members[scored.trajectory.group_id].append(scored)
    return tuple(
        Group(
            group_id=group_id,
            task=members[group_id][0].trajectory.task,
            size=sizes[group_id],
            members=tuple(sorted(members[group_id], key=lambda t: t.trajectory.slot)),
        )
        for group_id in sorted(members)
    )


def _ranges(steps: Sequence[int]) -> str:
    return f"steps {steps[0]} to {steps[-1]}" if steps else "none"
