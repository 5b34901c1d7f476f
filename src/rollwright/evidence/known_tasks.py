"""Which tasks a run has stored already: a bounded number, the same for a writer that went on and one that came back.

A run may draw new tasks in every step, so their ids are not kept for ever. One that was forgotten is stored again where
it returns; the view `tasks` shows it once.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, cast

from rollwright.evidence.commits import Commit
from rollwright.evidence.shards import read_shard
from rollwright.record.tables import TASKS

__all__ = ["MOST_TASKS", "KnownTasks", "read_known_tasks"]

MOST_TASKS: Final = 1 << 16
"""Those that were stored last."""


class KnownTasks:
    """The ids of the tasks that were stored last, a function of what was stored alone."""

    def __init__(self, limit: int = MOST_TASKS) -> None:
        """Start with none; more than `limit` are never kept."""
        self.limit = limit
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, task_id: object) -> bool:
        """True where the task need not be stored again."""
        return task_id in self._ids

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._ids)

    def add(self, task_ids: Iterable[str]) -> None:
        """Keep tasks that were stored now, in the order of their rows, and forget what was stored longest ago."""
        self._ids.update((task_id, None) for task_id in task_ids)
        while len(self._ids) > self.limit:
            self._ids.popitem(last=False)


def read_known_tasks(root: Path, commits: Sequence[Commit], limit: int = MOST_TASKS) -> KnownTasks:
    """What the writer of these commits knew at their end.

    Args:
        root: the run folder.
        commits: in order; those of later commands keep their tasks themselves, as a resume may abandon the step that
            holds them.
        limit: as the writer had it.
    """
    newest: list[list[str]] = []
    num_found = 0
    for commit in reversed(commits):
        shards = [s for s in commit.shards if commit.kind == "step" and s.table == TASKS.name]
        for shard in shards:
            newest.append(cast("list[str]", read_shard(root, shard, TASKS).column("task_id").to_pylist()))
            num_found += shard.num_rows
        if num_found >= limit:
            break
    known = KnownTasks(limit)
    for task_ids in reversed(newest):
        known.add(task_ids)
    return known
