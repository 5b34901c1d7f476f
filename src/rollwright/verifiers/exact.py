"""The answer's text equals the gold text, after a named normalization."""

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Submission, digest
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import FunctionVerifier, Grade, answered, gold_payload, no_answer

__all__ = ["Normalization", "NormalizationStep", "exact_verifier", "normalized"]

NormalizationStep = Literal["unicode", "case", "punctuation", "articles", "whitespace"]
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_REVISION = 2
"""Of the steps' meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Normalization:
    """Steps that are applied in this order, each named."""

    steps: tuple[NormalizationStep, ...] = ("whitespace",)
    """`whitespace` alone: ends stripped, runs of blanks as one. All five are the SQuAD rule with compatible forms."""


def normalized(text: str, normalization: Normalization) -> str:
    """The text after the steps."""
    for step in normalization.steps:
        match step:
            case "unicode":
                text = unicodedata.normalize("NFKC", text)
            case "case":
                text = text.casefold()
            case "punctuation":
                signs = {ord(c) for c in set(text) if unicodedata.category(c).startswith("P")}
                text = text.translate(dict.fromkeys(signs)) if signs else text
            case "articles":
                text = _ARTICLES.sub(" ", text)
            case "whitespace":
                text = " ".join(text.split())
    return text


def exact_verifier(
    rule: AnswerRule, normalization: Normalization | None = None, *, name: str = "exact"
) -> FunctionVerifier:
    """1 where answer and gold are the same text, else 0.

    Args:
        rule: where the answer stands.
        normalization: what is taken for the same; part of the revision.
        name: in the tables.
    """
    steps = normalization or Normalization()

    def grade(submission: Submission) -> Grade:
        gold = normalized(gold_payload(submission).answer, steps)
        if not gold:
            raise GoldError("nothing is left of the answer after normalization")
        reading = read_answer(submission, rule)
        if not reading.answer:
            return no_answer(reading.num_answers)
        given = normalized(reading.answer, steps)
        # Where no form was asked for, the answer may end a sentence.
        is_same = given == gold or (rule.form == "free" and given.removesuffix(".") == gold)
        evidence = f"{given[:200]!r} against {gold[:200]!r}"
        return Grade(value=float(is_same), evidence=evidence, canonical=answered(given))

    return FunctionVerifier(name=name, revision=digest([_REVISION, name, rule.parts(), steps.steps])[:16], grade=grade)
