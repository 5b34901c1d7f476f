"""Splits by cluster: what shares its material with a held-out task is never trained on."""

from collections.abc import Iterable

from rollwright.record import Task, digest
from rollwright.tasks import HELD_OUT, TRAIN, Payload, SplitSizes, TaskError, TaskSource, make_task

__all__ = ["CLUSTER", "split_by_cluster"]

CLUSTER = "cluster"
"""Key of `info` that names the cluster of a task."""
_SHARE = 0.25
"""Of all clusters; a constant, so that a cluster never changes sides."""
_PATIENCE = 20_000
"""Drawings in a row without a new task after which a generator counts as exhausted."""


def split_by_cluster(payloads: Iterable[Payload], sizes: SplitSizes, *, name: str, revision: str) -> TaskSource:
    """Draw tasks until both splits are full; whole clusters are held out.

    Args:
        payloads: each names its cluster in `info`; may be endless and may repeat itself.
        sizes: distinct tasks wanted.
        name: of the source.
        revision: of what made the payloads.

    Raises:
        TaskError: where nothing can be trained on.
    """
    found: dict[str, dict[str, Task]] = {TRAIN: {}, HELD_OUT: {}}
    wanted = {TRAIN: sizes.train, HELD_OUT: sizes.held_out}
    stale = 0
    for payload in payloads:
        split = HELD_OUT if _is_held_out(payload.text(CLUSTER)) else TRAIN
        task = make_task(payload, source=name, revision=revision, split=split)
        stale += 1
        if len(found[split]) < wanted[split] and task.task_id not in found[split]:
            found[split][task.task_id] = task
            stale = 0
        if stale > _PATIENCE or all(len(found[side]) >= wanted[side] for side in wanted):
            break
    if not found[TRAIN]:
        raise TaskError(f"source {name} yields no training task; make its parameters wider")
    return TaskSource(
        name=name, revision=revision, train=tuple(found[TRAIN].values()), held_out=tuple(found[HELD_OUT].values())
    )


def _is_held_out(cluster: str) -> bool:
    return int(digest(["cluster", cluster])[:12], 16) < _SHARE * 16**12
