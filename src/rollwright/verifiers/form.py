"""Verdicts on form: whether an answer was given as asked, and how the tools were used."""

from rollwright.record import NamedValue, Submission, digest
from rollwright.verifiers.answers import AnswerRule, final_text, read_answer
from rollwright.verifiers.grading import NO_ANSWER, FunctionVerifier, Grade, no_answer
from rollwright.verifiers.visible import is_blank

__all__ = ["ERROR_PREFIX", "format_verifier", "tool_use_verifier"]

ERROR_PREFIX = "error:"
"""How every failed call is answered by the tool environment."""
_REVISION = 2


def format_verifier(rule: AnswerRule, *, name: str = "format") -> FunctionVerifier:
    """1 where the last turn holds exactly one answer in the asked form, and it is not empty; else 0."""

    def grade(submission: Submission) -> Grade:
        if final_text(submission, rule).is_cut:
            return Grade(value=0.0, finding=NO_ANSWER, evidence="the reasoning was never closed")
        reading = read_answer(submission, rule)
        if is_blank(reading.answer or ""):
            return no_answer(reading.num_answers)
        return Grade(value=float(reading.num_answers == 1), evidence=f"{reading.num_answers} answers")

    return FunctionVerifier(name=name, revision=digest([_REVISION, name, rule.parts()])[:16], grade=grade)


def tool_use_verifier(*, name: str = "tool_calls") -> FunctionVerifier:
    """How many calls were answered; a negative weight makes it a cost. Never an outcome."""

    def grade(submission: Submission) -> Grade:
        results = [passage.text for passage in submission.passages if passage.kind == "tool"]
        failed = sum(text.lstrip().startswith(ERROR_PREFIX) for text in results)
        return Grade(
            value=float(len(results)),
            evidence=f"{len(results)} calls, {failed} failed",
            components=(NamedValue(name="calls", value=len(results)), NamedValue(name="failed_calls", value=failed)),
        )

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)
