"""A judge that grades an answer, or a whole episode, on a scale; and one that says whether two answers are the same."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.verifiers.answers import read_answer
from rollwright.verifiers.exact import Normalization, normalized
from rollwright.verifiers.grading import Grade, no_answer
from rollwright.verifiers.judging.asking import Asker, Unanswered
from rollwright.verifiers.judging.marks import Scale, read_choice, read_grade
from rollwright.verifiers.judging.prompting import Shown, block, judge_messages, question_of, reference_of, shown_text
from rollwright.verifiers.judging.verdicts import judge_each, judged, silent, unjudged
from rollwright.verifiers.numbers import NumberForm, agree, read_gold_number, read_number

__all__ = ["EquivalenceJudge", "GradeJudge"]

_REVISION = 1
"""Of the prompts below."""
_GRADE_PROTOCOL = (
    "Reason briefly, then end with one line, and nothing behind it:\nGRADE: <number from {low:g} to {high:g}>"
)
_EQUIVALENT, _DIFFERENT = "EQUIVALENT", "DIFFERENT"
_SAME_INSTRUCTIONS = (
    "You decide whether two answers to a question mean the same. Form, notation and wording do not count; value, unit "
    "and meaning do. You do not decide which of them is right."
)
_SAME_PROTOCOL = f"Reason briefly, then end with one line: VERDICT: {_EQUIVALENT} or VERDICT: {_DIFFERENT}"
_ALIKE = Normalization(steps=("unicode", "case", "whitespace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class GradeJudge:
    """One grade for each trajectory, put between 0 and 1; the raw grade is the component `grade`."""

    asker: Asker
    instructions: str = "You grade how well an answer solves the task that was set. Be strict; judge content alone."
    scale: Scale = Scale()
    shown: Shown = Shown()
    reference: Literal["hidden", "shown"] = "hidden"
    """Whether the judge is told the task's own answer."""
    name: str = "judge"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of judge, prompt and scale."""
        scale = [self.scale.low, self.scale.high]
        own = [_REVISION, self.name, self.asker.revision, self.asker.limits.attempts, self.instructions]
        return digest([*own, scale, self.shown.parts(), self.reference])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Grade each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        blocks = [block("TASK", question_of(submission), max_characters=self.shown.max_characters)]
        if self.reference == "shown":
            blocks.append(block("REFERENCE", reference_of(submission), max_characters=self.shown.max_characters))
        text = shown_text(submission, self.shown)
        if not text:
            return silent(self, submission)
        blocks.append(block("DATA", text, max_characters=self.shown.max_characters))
        protocol = _GRADE_PROTOCOL.format(low=self.scale.low, high=self.scale.high)
        asked = await self.asker.ask(
            judge_messages(self.instructions, blocks, protocol), lambda reply: read_grade(reply, self.scale)
        )
        if isinstance(asked, Unanswered):
            return unjudged(self, submission, [asked])
        grade = Grade(
            value=self.scale.share(asked.found),
            evidence=asked.text,
            components=(NamedValue(name="grade", value=asked.found),),
        )
        return judged(self, submission, grade, [asked])


@dataclass(frozen=True, slots=True, kw_only=True)
class EquivalenceJudge:
    """1 where the answer means what the gold answer means. The judge is asked only where no rule can tell.

    Equal text is right and two different numbers are wrong, without a judge: it never overrides a deterministic check.
    The component `asked` says who decided.
    """

    asker: Asker
    shown: Shown = Shown()
    tolerance: float = 1e-6
    """Relative, between two numbers."""
    name: str = "equivalence"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of judge, prompt and rules."""
        own = [_REVISION, self.name, self.asker.revision, self.asker.limits.attempts, self.tolerance]
        return digest([*own, self.shown.parts(), _SAME_INSTRUCTIONS])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        gold = reference_of(submission)
        reading = read_answer(submission, self.shown.rule)
        if not reading.answer:
            return judged(self, submission, no_answer(reading.num_answers), [])
        given = reading.answer
        by_rule = self._by_rule(given, gold)
        if by_rule is not None:
            return judged(self, submission, _grade(by_rule, f"{given[:200]!r} against {gold[:200]!r}", asked=0.0), [])
        cut = self.shown.max_characters
        blocks = [
            block("TASK", question_of(submission), max_characters=cut),
            block("FIRST ANSWER", gold, max_characters=cut),
            block("SECOND ANSWER", given, max_characters=cut),
        ]
        asked = await self.asker.ask(
            judge_messages(_SAME_INSTRUCTIONS, blocks, _SAME_PROTOCOL),
            lambda reply: read_choice(reply, (_EQUIVALENT, _DIFFERENT)),
        )
        if isinstance(asked, Unanswered):
            return unjudged(self, submission, [asked])
        return judged(self, submission, _grade(asked.found == _EQUIVALENT, asked.text, asked=1.0), [asked])

    def _by_rule(self, given: str, gold: str) -> bool | None:
        if normalized(given, _ALIKE) == normalized(gold, _ALIKE):
            return True
        number, other = read_gold_number(gold), read_number(given, NumberForm.CLOSED)
        return None if number is None or other is None else agree(number, other, self.tolerance)


def _grade(is_same: bool, evidence: str, *, asked: float) -> Grade:  # noqa: FBT001 - the grade itself
    return Grade(value=float(is_same), evidence=evidence, components=(NamedValue(name="asked", value=asked),))
