"""The steps of a stored run with the objective that made them, from rows that may be altered."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import pyarrow as pa

from rollwright.evidence import LoadedRun
from rollwright.evidence.checking.loading import LoadedShard
from rollwright.record import Group, Receipt, RecordError, ScoredTrajectory
from rollwright.record.codec import decode_receipts, decode_trajectories
from rollwright.record.tables import (
    RECEIPTS,
    SEGMENTS,
    TASKS,
    TENSORS,
    TOOL_CALLS,
    TRAJECTORIES,
    VERDICTS,
)

__all__ = ["StoredStep", "StoredSteps"]

_OF_TRAJECTORIES = (TRAJECTORIES, SEGMENTS, TENSORS, TOOL_CALLS, VERDICTS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StoredStep:
    """What a step trained and what it said of it."""

    step: int
    groups: tuple[Group, ...]
    receipts: tuple[Receipt, ...]
    stage: str


class StoredSteps:
    """Reads the steps of a run in order; what cannot be made a record is named and left out."""

    def __init__(self, run: LoadedRun) -> None:
        """Of a run that was read."""
        self._run = run
        self._members: dict[str, ScoredTrajectory] = {}
        self.unreadable: list[str] = []

    def evaluations(self) -> Iterator[tuple[int, tuple[ScoredTrajectory, ...]]]:
        """The held-out episodes of each commit that holds any, in order."""
        for commit in self._run.folder.commits:
            held = [m for m in self._decoded(commit.number) if m.trajectory.purpose == "evaluation"]
            if held:
                yield commit.number, tuple(held)

    def steps(self) -> Iterator[StoredStep]:
        """Steps that have receipts, in order."""
        for commit in self._run.folder.commits:
            if commit.kind != "step":
                continue
            for member in self._decoded(commit.number):
                self._members[member.trajectory_id] = member
            receipts = self._receipts(commit.number)
            groups = self._groups(commit.step, receipts)
            if receipts and groups:
                stage = groups[0].members[0].trajectory.stage
                yield StoredStep(step=commit.step, groups=groups, receipts=receipts, stage=stage)

    @cached_property
    def _shards(self) -> Mapping[tuple[int, str], LoadedShard]:
        return {(shard.commit, shard.table): shard for shard in self._run.shards}

    @cached_property
    def _sizes(self) -> Mapping[int, int]:
        rows = self._run.rows("SELECT group_id, count(DISTINCT slot) FROM ledger GROUP BY group_id")
        return {cast("int", group_id): cast("int", size) for group_id, size in rows}

    @cached_property
    def _trained(self) -> Mapping[int, Sequence[str]]:
        found: dict[int, list[str]] = defaultdict(list)
        for step, name in self._run.rows(
            "SELECT step, trajectory_id FROM slots WHERE state = 'trained' AND trajectory_id IS NOT NULL"
        ):
            found[cast("int", step)].append(cast("str", name))
        return found

    def _slice(self, commit: int, name: str) -> pa.Table:
        shard = self._shards.get((commit, name))
        table = self._run.tables[name]
        return table.slice(0, 0) if shard is None else table.slice(shard.first_row, shard.num_rows)

    def _decoded(self, commit: int) -> tuple[ScoredTrajectory, ...]:
        tables = {table.name: self._slice(commit, table.name).combine_chunks() for table in _OF_TRAJECTORIES}
        try:
            return decode_trajectories(tables | {TASKS.name: self._run.tables[TASKS.name]}, self._run.folder.blob)
        except (RecordError, ValueError, KeyError, TypeError) as error:
            self.unreadable.append(f"commit {commit} holds episodes that are none: {error}")
            return ()

    def _receipts(self, commit: int) -> tuple[Receipt, ...]:
        try:
            return decode_receipts(self._slice(commit, RECEIPTS.name).combine_chunks())
        except (RecordError, ValueError, KeyError, TypeError) as error:
            self.unreadable.append(f"commit {commit} holds receipts that are none: {error}")
            return ()

    def _groups(self, step: int, receipts: Sequence[Receipt]) -> tuple[Group, ...]:
        """The trained members of groups, and each demonstration as a group of one."""
        names = {r.trajectory_id for r in receipts}
        shown = {n for n in names if n in self._members and self._members[n].trajectory.purpose == "demonstration"}
        by_group: dict[int, dict[int, ScoredTrajectory]] = defaultdict(dict)
        for name in (*shown, *self._trained.get(step, ())):
            member = self._members.get(name)
            if member is not None:
                by_group[member.trajectory.group_id][member.trajectory.slot] = member
        return tuple(
            Group(
                group_id=group_id,
                task=next(iter(slots.values())).trajectory.task,
                size=self._sizes.get(group_id, len(slots)),
                members=tuple(slots[slot] for slot in sorted(slots)),
            )
            for group_id, slots in sorted(by_group.items())
        )
