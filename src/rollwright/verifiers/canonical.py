"""One text for all ways to write an answer, so that answers can be counted and put to a vote."""

from rollwright.record import Submission
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.exact import Normalization, normalized
from rollwright.verifiers.numbers import NumberForm, read_number

__all__ = ["canonical_answer"]

_ALIKE = Normalization(steps=("unicode", "case", "whitespace"))


def canonical_answer(submission: Submission, rule: AnswerRule) -> str | None:
    """The answer of an episode as text that equal answers share: a number by its value, else without case and blanks.

    Args:
        submission: a finished episode.
        rule: where its answer stands.

    Returns:
        None where it gave none, or an empty one.
    """
    answer = read_answer(submission, rule).answer
    if answer is None or not answer.strip():
        return None
    number = read_number(answer, NumberForm.FRACTION)
    return str(number.value) if number is not None else normalized(answer, _ALIKE).removesuffix(".")
