"""Short answers against several right ones: exact match and token F1, after a declared normalization.

The default is the rule of SQuAD and of the open-domain sets: lower case, no punctuation, no articles, single blanks.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Payload
from rollwright.verifiers.answers import AnswerRule, final_text, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.exact import Normalization, normalized
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload, no_answer

__all__ = ["SQUAD", "TextMatchRule", "text_match_verifier", "token_f1"]

SQUAD = Normalization(steps=("case", "punctuation", "articles", "whitespace"))
_REVISION = 1
"""Of the counting below."""
_CLOSED = frozenset({"yes", "no", "noanswer"})
"""Answers that are right or wrong, never in part (the rule of HotpotQA)."""
_MOST_CHARACTERS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMatchRule:
    """What counts as the same answer."""

    metric: Literal["exact_match", "f1"] = "exact_match"
    """The value; the other one is kept as a component."""
    normalization: Normalization = SQUAD
    answer: AnswerRule = AnswerRule()
    """Where the answer stands, unless there is a tag."""
    answer_tag: str = ""
    """`answer`: what `<answer>` and `</answer>` hold; of several the last."""

    def __post_init__(self) -> None:
        """Refuse a tag that is none."""
        if self.answer_tag and not re.fullmatch(r"[A-Za-z_]+", self.answer_tag):
            raise VerifierSetupError(f"answer_tag is {self.answer_tag!r}; give a name of letters, such as 'answer'")


def text_match_verifier(rule: TextMatchRule | None = None, *, name: str = "text_match") -> FunctionVerifier:
    """The best match with any right answer: those of `info.answers`, or the task's one answer.

    Args:
        rule: part of the revision.
        name: in the tables.
    """
    match = rule or TextMatchRule()

    def grade(submission: Submission) -> Grade:
        golds = [normalized(gold, match.normalization) for gold in _gold_answers(gold_payload(submission))]
        if not all(golds):
            raise GoldError("nothing is left of an answer after normalization")
        answer, num_answers = _answer(submission, match)
        if not answer:
            return no_answer(num_answers)
        if len(answer) > _MOST_CHARACTERS:
            return Grade(value=0.0, finding="answer_too_long", evidence=f"{len(answer)} characters are no short answer")
        given = normalized(answer, match.normalization)
        exact = float(given in golds)
        f1 = max(token_f1(given, gold) for gold in golds)
        return Grade(
            value=exact if match.metric == "exact_match" else f1,
            evidence=f"{given[:200]!r} against {golds[0][:200]!r}" + (f" and {len(golds) - 1} more" * (len(golds) > 1)),
            components=(NamedValue(name="exact_match", value=exact), NamedValue(name="f1", value=f1)),
        )

    parts = [match.metric, match.normalization.steps, match.answer.parts(), match.answer_tag]
    return FunctionVerifier(name=name, revision=digest([_REVISION, name, parts])[:16], grade=grade)


def token_f1(given: str, gold: str) -> float:
    """Harmonic mean of precision and recall over words, repeats counted; both texts are normalized.

    Returns:
        0 to 1. `yes`, `no` and `noanswer` match themselves alone.
    """
    if given != gold and (given in _CLOSED or gold in _CLOSED):
        return 0.0
    said, wanted = given.split(), gold.split()
    shared = sum((Counter(said) & Counter(wanted)).values())
    return 2 * shared / (len(said) + len(wanted)) if shared else 0.0


def _gold_answers(payload: Payload) -> Sequence[str]:
    answers = payload.info.get("answers")
    if answers is None:
        return (payload.answer,)
    if isinstance(answers, str) or not isinstance(answers, Sequence) or not answers:
        raise GoldError("`info.answers` must be a list of texts")
    texts = [answer for answer in answers if isinstance(answer, str)]
    if len(texts) != len(answers):
        raise GoldError("`info.answers` holds something that is no text")
    return texts


def _answer(submission: Submission, match: TextMatchRule) -> tuple[str | None, int]:
    """The answer and how many stand there."""
    if not match.answer_tag:
        reading = read_answer(submission, match.answer)
        return reading.answer, reading.num_answers
    tag = match.answer_tag
    text, end = final_text(submission, match.answer).text, f"</{tag}>"
    # Behind the last end nothing is looked for: each tag would be followed to the end of the text.
    found = re.compile(f"<{tag}>(.*?){end}", re.DOTALL).findall(text, 0, text.rfind(end) + len(end))
    return (found[-1].strip() if found else None), len(found)
