"""From what a judge answered to a verdict; the same for every judge."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from rollwright.record import NamedValue, Submission, Verdict, Verifier
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import NO_ANSWER, Grade, bad_gold
from rollwright.verifiers.judging.asking import Answered, Unanswered
from rollwright.verifiers.restating import shorten

__all__ = ["judge_each", "judged", "silent", "total_cost", "unjudged"]

Found = TypeVar("Found")


async def judge_each(
    verifier: Verifier, submissions: Sequence[Submission], judge: Callable[[Submission], Awaitable[Verdict]]
) -> list[Verdict]:
    """Verdicts in the order given, asked for together; a task without a gold answer is a grading error of it alone."""

    async def settle(submission: Submission) -> Verdict:
        try:
            return await judge(submission)
        except GoldError as error:
            return bad_gold(submission, verifier.name, verifier.revision, error)

    async with asyncio.TaskGroup() as group:
        running = [group.create_task(settle(s), name=f"{verifier.name} on {s.trajectory_id}") for s in submissions]
    return [task.result() for task in running]


def judged(verifier: Verifier, submission: Submission, grade: Grade, asked: Sequence[Answered[Found]]) -> Verdict:
    """A number, with the judge's rationale as evidence and what it cost."""
    calls = NamedValue(name="judge_calls", value=sum(answer.calls for answer in asked))
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=grade.value,
        components=(*grade.components, calls),
        finding=grade.finding,
        evidence=shorten(grade.evidence),
        cost=total_cost(asked),
    )


def unjudged(verifier: Verifier, submission: Submission, asked: Sequence[Answered[Found] | Unanswered]) -> Verdict:
    """No number, with the first cause and the reply that could not be read."""
    failed = next(answer for answer in asked if isinstance(answer, Unanswered))
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=failed.cause,
        components=(NamedValue(name="judge_calls", value=sum(answer.calls for answer in asked)),),
        evidence=shorten(failed.text),
        cost=total_cost(asked),
    )


def silent(verifier: Verifier, submission: Submission) -> Verdict:
    """0 for an episode in which the policy says nothing: no judge is asked."""
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=0.0,
        finding=NO_ANSWER,
        evidence="no answer",
    )


def total_cost(asked: Sequence[Answered[Found] | Unanswered]) -> float | None:
    """Of all calls whose cost is known; None where none is."""
    known = [answer.cost for answer in asked if answer.cost is not None]
    return sum(known) if known else None
