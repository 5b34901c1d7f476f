"""The answer is the same number as the gold one; a few named words stand where there is no number.

A gold answer with a unit is an amount: the answer needs a unit too, the same or one of the same dimension.
"""

from dataclasses import dataclass
from typing import Literal

from rollwright.record import Submission, digest
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import (
    UNPARSABLE,
    FunctionVerifier,
    Grade,
    answered,
    answered_number,
    gold_payload,
    no_answer,
)
from rollwright.verifiers.math_forms import given_scientific
from rollwright.verifiers.numbers import NumberForm, agree, read_gold_number, read_number
from rollwright.verifiers.quantities import QUANTITIES_REVISION, Quantity, read_quantity
from rollwright.verifiers.question_back import is_question_back

__all__ = ["NumericRule", "numeric_verifier"]

_FORMS = {"literal": NumberForm.LITERAL, "fraction": NumberForm.FRACTION, "closed": NumberForm.CLOSED}
_REVISION = 2
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
        amount = read_quantity(payload.answer) if gold is None and gold_word not in words else None
        if gold is None and gold_word not in words and amount is None:
            raise GoldError(f"{payload.answer[:80]!r} is neither a number nor one of the words {settings.words}")
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        evidence = f"{reading.answer[:80]!r} against {payload.answer[:80]!r}"
        tolerance = payload.number("tolerance", settings.tolerance)
        if amount is not None:
            return _same_amount(reading.answer, amount, tolerance, evidence)
        given_word = reading.answer.strip().rstrip(".").casefold()
        if given_word in words:
            is_same = gold is None and given_word == gold_word
            return Grade(value=float(is_same), evidence=evidence, canonical=answered(given_word))
        # A gold fraction may be answered as it is written.
        own = NumberForm.LITERAL if read_number(payload.answer, NumberForm.LITERAL) else NumberForm.FRACTION
        given = read_number(reading.answer, max(own, _FORMS[settings.form])) or given_scientific(reading.answer)
        if given is not None and is_question_back(reading.answer, payload):
            return Grade(value=0.0, finding=UNPARSABLE, evidence=f"{evidence}: the question given back")
        if given is None:
            return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
        is_same = gold is not None and agree(gold, given, tolerance)
        return Grade(value=float(is_same), evidence=evidence, canonical=answered_number(given.value))

    meaning = [_REVISION, QUANTITIES_REVISION]
    revision = digest([meaning, name, rule.parts(), settings.tolerance, settings.form, settings.words])[:16]
    return FunctionVerifier(name=name, revision=revision, grade=grade)


def _same_amount(answer: str, gold: Quantity, tolerance: float, evidence: str) -> Grade:
    given = read_quantity(answer)
    if given is None:
        return Grade(value=0.0, finding=UNPARSABLE, evidence=evidence)
    is_same = given.dimension == gold.dimension and agree(gold.number, given.number, tolerance)
    return Grade(value=float(is_same), evidence=evidence)
