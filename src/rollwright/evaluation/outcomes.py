"""What came of the attempts of an evaluation: success by success, task by task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.record import ScoredTrajectory

__all__ = ["Baseline", "Outcomes", "gold_value", "outcomes_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """An earlier checkpoint under the same protocol, to be compared with."""

    step: int
    counts: Mapping[str, tuple[int, int]]
    """Task to scored attempts and successes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Attempts with a number, and the tasks that should have some."""

    scored: tuple[ScoredTrajectory, ...]
    tasks: tuple[str, ...]
    """Of each scored attempt."""
    successes: tuple[bool, ...]
    expected: tuple[str, ...]
    """Every task that was attempted, scored or not."""

    @property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Task to scored attempts n and successes c; (0, 0) where nothing was scored."""
        found: dict[str, tuple[int, int]] = {task: (0, 0) for task in self.expected}
        for task, hit in zip(self.tasks, self.successes, strict=True):
            attempts, successes = found[task]
            found[task] = (attempts + 1, successes + hit)
        return found


def outcomes_of(protocol: EvaluationProtocol, members: Sequence[ScoredTrajectory]) -> Outcomes:
    """Sort out what has a number.

    Args:
        protocol: says what a success is.
        members: every attempt, retries and unscored ones included.
    """
    scored = tuple(m for m in members if not isinstance(m.outcome, str))
    return Outcomes(
        scored=scored,
        tasks=tuple(m.trajectory.task.task_id for m in scored),
        successes=tuple(not isinstance(m.outcome, str) and m.outcome >= protocol.success_threshold for m in scored),
        expected=tuple(dict.fromkeys(m.trajectory.task.task_id for m in members)),
    )


def gold_value(protocol: EvaluationProtocol, member: ScoredTrajectory) -> float | None:
    """What the second verifier gave an attempt; None where it gave no number."""
    for verdict in member.verdicts:
        if verdict.verifier == protocol.gold_verifier and not isinstance(verdict.outcome, str):
            return verdict.outcome
    return None
