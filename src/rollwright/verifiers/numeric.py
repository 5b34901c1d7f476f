"""The answer is the same number as the gold one; a few named words stand where there is no number."""

from dataclasses import dataclass
from typing import Literal

from rollwright.record import Submission, digest
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import UNPARSABLE, FunctionVerifier, Grade, gold_payload, no_answer
from rollwright.verifiers.numbers import NumberForm, agree, read_gold_number, read_number

__all__ = ["NumericRule", "numeric_verifier"]

_FORMS = {"literal": NumberForm.LITERAL, "fraction": NumberForm.FRACTION, "closed": NumberForm.CLOSED}
_REVISION = 1
"""Of the rule's meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NumericRule:
    """What counts as the same number."""

    tolerance: float = 0.0
    """Relative, where either side is a decimal; a task may state its own as `info.tolerance`."""
    form: Literal["literal", "fraction", "closed"] = "literal"
    """What the answer may look like. A computation never counts: the question given back is no answer."""
    words: tuple[str, ...] = ("undefined",)
    """Gold answers that are words; they are compared as text, upper and lower case alike."""

    def __post_init__(self) -> None:
        """Refuse a tolerance under which everything agrees."""
        if not 0 <= self.tolerance < 1:
            raise VerifierSetupError(f"tolerance {self.tolerance} is not in [0, 1)")


def numeric_verifier(
    rule: AnswerRule, numeric: NumericRule | None = None, *, name: str = "numeric"
) -> FunctionVerifier:
    """1 where the answer is the gold number, else 0.

    Args:
        rule: where the answer stands.
        numeric: what counts as the same; part of the revision.
        name: in the tables.
    """
    settings = numeric or NumericRule()
    words = frozenset(word.casefold() for word in settings.words)

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        gold_word = payload.answer.strip().casefold()
        gold = read_gold_number(payload.answer)
        if gold is None and gold_word not in words:
            raise GoldError(f"{payload.answer[:80]!r} is neither a number nor one of the words {settings.words}")
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        evidence = f"{reading.answer[:80]!r} against {payload.answer[:80]!r}"
        given_word = reading.answer.strip().rstrip(".").casefold()
        if given_word in words:
            return Grade(value=float(gold is None and given_word == gold_word), evidence=evidence)
        given = read_number(reading.answer, _FORMS[settings.form])
        if given is None:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
        tolerance = payload.number("tolerance", settings.tolerance)
        return Grade(value=float(gold is not None and agree(gold, given, tolerance)), evidence=evidence)

    revision = digest([_REVISION, name, rule.parts(), settings.tolerance, settings.form, settings.words])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)
