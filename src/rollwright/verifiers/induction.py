"""Rules judged by what they say: of the examples as they stand, and of the same examples under other names (M122)."""

from typing import Literal

from rollwright.record import NamedValue, Submission, digest, seed_of
from rollwright.tasks import TaskError, goes_east, read_rule, renamed, trains_of
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, gold_payload, no_answer

__all__ = ["rule_verifier"]

_REVISION = 1


def rule_verifier(form: Literal["extensional", "isomorphic"], *, answer: AnswerRule | None = None) -> FunctionVerifier:
    """1 where the rule puts every train on its side, else 0; `agreement` is the share that it puts right.

    Args:
        form: `extensional`: the trains of the task, as they are named there, so that a list of names passes.
            `isomorphic`: under other names, in another order, drawn from the task alone.
        answer: where the rule stands.
    """
    place = answer or AnswerRule()

    def grade(submission: Submission) -> Grade:
        try:
            trains = trains_of(gold_payload(submission).info)
        except TaskError as error:
            raise GoldError(str(error)) from error
        reading = read_answer(submission, place)
        if not reading.answer:
            return no_answer(reading.num_answers)
        try:
            rule = read_rule(reading.answer)
        except TaskError as error:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=str(error))
        if form == "isomorphic":
            trains = renamed(trains, seed_of("isomorphic", submission.task.task_id))
        right = [goes_east(rule, train) == train.is_east for train in trains]
        return Grade(
            value=float(all(right)),
            evidence=f"{sum(right)} of {len(right)} trains",
            components=(NamedValue(name="agreement", value=sum(right) / len(right)),),
        )

    return FunctionVerifier(name=form, revision=digest([_REVISION, form, place.parts()])[:16], grade=grade)
