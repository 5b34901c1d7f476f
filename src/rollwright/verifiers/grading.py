"""A verifier from a function: one submission in, one grade out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from rollwright.record import Canonical, GradingError, NamedValue, Submission, Verdict
from rollwright.tasks import Payload, TaskError, payload_of
from rollwright.verifiers.errors import GoldError

__all__ = [
    "FunctionVerifier",
    "Grade",
    "GradeFn",
    "answered",
    "answered_number",
    "bad_gold",
    "gold_payload",
    "graded_verdict",
    "no_answer",
    "ungraded_verdict",
    "wrote",
]

NO_ANSWER = "no_answer"
UNPARSABLE = "unparsable_answer"
PROGRAM_TIMEOUT = "program_timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What the policy gets."""

    value: float
    finding: str | None = None
    """What the policy did that made a grade of its answer impossible."""
    evidence: str = ""
    components: tuple[NamedValue, ...] = ()
    canonical: Canonical | None = None
    """The answer as it was read."""


GradeFn = Callable[[Submission], Grade]
"""Raises GoldError where the task itself cannot be graded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionVerifier:
    """A `record.Verifier` that grades each trajectory by a function of its submission alone."""

    name: str
    revision: str
    grade: GradeFn
    deadline_s: float = 5.0
    scope: Literal["trajectory"] = "trajectory"

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Grade each; a fault of the data is a grading error of that one alone."""
        return [self._verdict(submission) for submission in submissions]

    def _verdict(self, submission: Submission) -> Verdict:
        try:
            grade = self.grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        return graded_verdict(submission, self.name, self.revision, grade)


def graded_verdict(submission: Submission, name: str, revision: str, grade: Grade) -> Verdict:
    """The verdict with what the policy gets."""
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=name,
        revision=revision,
        scope="trajectory",
        outcome=grade.value,
        components=grade.components,
        finding=grade.finding,
        evidence=grade.evidence,
        canonical=grade.canonical,
    )


def ungraded_verdict(submission: Submission, name: str, revision: str, cause: GradingError, evidence: str) -> Verdict:
    """The verdict without a number: what kept the verifier from giving one was no doing of the policy."""
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=name,
        revision=revision,
        scope="trajectory",
        outcome=cause,
        evidence=evidence,
    )


def bad_gold(submission: Submission, name: str, revision: str, error: GoldError) -> Verdict:
    """The verdict where the task's own answer is at fault."""
    return ungraded_verdict(
        submission, name, revision, "grader_error", f"bad gold of task {submission.task.task_id}: {error}"
    )


def gold_payload(submission: Submission) -> Payload:
    """The task's payload.

    Raises:
        GoldError: where it cannot be read, an empty answer included.
    """
    try:
        return payload_of(submission.task)
    except (TaskError, ValueError) as error:
        raise GoldError(str(error)) from error


def answered(text: str) -> Canonical:
    """An answer in its canonical form."""
    return Canonical(kind="answer", text=text)


def answered_number(value: Fraction) -> Canonical:
    """A number by its value, however it was written; in hexadecimal, whose length nothing bounds."""
    return answered(f"{value.numerator:x}/{value.denominator:x}")


def wrote(program: str) -> Canonical:
    """A program without blanks at the ends of its lines."""
    lines = (line.rstrip() for line in program.strip().splitlines())
    return Canonical(kind="program", text="\n".join(lines))


def no_answer(num_answers: int) -> Grade:
    """The grade where nothing was answered."""
    evidence = "no answer" if num_answers == 0 else f"{num_answers} different answers"
    return Grade(value=0.0, finding=NO_ANSWER, evidence=evidence)
