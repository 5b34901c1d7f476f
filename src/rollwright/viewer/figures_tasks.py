"""Scores of each held-out task, by evaluation: what two runs are paired by, and what seeds are compared on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rollwright.evidence import RunFolder, StoredEvaluation, stored_evaluations

__all__ = ["TaskScores", "read_task_scores", "shared_tasks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScores:
    """One evaluation, task by task."""

    protocol: str
    protocol_sha256: str
    step: int
    success: Mapping[str, float]
    """Task to its share of successes; tasks without a scored attempt are left out."""

    def means(self, tasks: Sequence[str]) -> NDArray[np.float64]:
        """(tasks,) in that order."""
        return np.array([self.success[task] for task in tasks], dtype=np.float64)


def read_task_scores(path: Path) -> tuple[TaskScores, ...]:
    """The evaluations of a run, by step; of each protocol and step the first that scored anything."""
    found: dict[tuple[int, str], TaskScores] = {}
    for evaluation in stored_evaluations(RunFolder.open(path)):
        success = _success(evaluation)
        if success:
            scores = TaskScores(
                protocol=evaluation.protocol,
                protocol_sha256=evaluation.protocol_sha256,
                step=evaluation.step,
                success=success,
            )
            found.setdefault((scores.step, scores.protocol_sha256), scores)
    return tuple(found[key] for key in sorted(found))


def shared_tasks(evaluations: Sequence[TaskScores]) -> tuple[str, ...]:
    """Tasks that all of them scored, in order."""
    if not evaluations:
        return ()
    return tuple(sorted(set[str].intersection(*(set(one.success) for one in evaluations))))


def _success(evaluation: StoredEvaluation) -> dict[str, float]:
    return {task: right / scored for task, (scored, right) in evaluation.counts.items() if scored}
