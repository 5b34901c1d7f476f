"""Many submissions under one verifier, a bounded number at a time, each with what came of it."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.record import Submission, Verifier
from rollwright.statistics.confusion import Judged
from rollwright.verifiers import Composition, Part

__all__ = ["Judgement", "judge_all", "judgement_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What was said of one submission."""

    trajectory_id: str
    outcome: float | str
    """A number, or why there is none."""
    judged: Judged
    finding: str | None
    evidence: str


async def judge_all(
    verifier: Verifier | Composition, submissions: Sequence[Submission], *, success_at: float
) -> list[Judgement]:
    """Judge each submission by itself, in order.

    Args:
        verifier: one, or a composition, whose reward then decides.
        submissions: whose trajectory ids may repeat.
        success_at: the value from which a submission is accepted.
    """
    composition = verifier if isinstance(verifier, Composition) else Composition([Part(verifier=verifier)])
    at_once = asyncio.Semaphore(2 * (os.cpu_count() or 1))

    async def one(submission: Submission) -> Judgement:
        async with at_once:
            (score,) = await composition.score([submission])
        said = "; ".join(verdict.evidence for verdict in score.verdicts if verdict.evidence)
        finding = next((verdict.finding for verdict in score.verdicts if verdict.finding), None)
        return judgement_of(submission.trajectory_id, score.outcome, success_at, finding=finding, evidence=said)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(one(s), name=f"judge {s.trajectory_id}") for s in submissions]
    return [task.result() for task in running]


def judgement_of(
    trajectory_id: str, outcome: float | str, success_at: float, *, finding: str | None = None, evidence: str = ""
) -> Judgement:
    """A number from `success_at` on is accepted, a lower one rejected; without a number it is neither."""
    judged = Judged.ERROR
    if not isinstance(outcome, str):
        judged = Judged.ACCEPTED if outcome >= success_at else Judged.REJECTED
    return Judgement(trajectory_id=trajectory_id, outcome=outcome, judged=judged, finding=finding, evidence=evidence)
