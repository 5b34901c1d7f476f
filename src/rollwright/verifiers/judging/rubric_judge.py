"""Verifiers by rubric: a judge ticks the items that no rule can check; or extracts values that rules then compare."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.tasks import TaskError, payload_of
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.exact import Normalization, normalized
from rollwright.verifiers.grading import Grade
from rollwright.verifiers.judging.asking import Answered, Asker, Unanswered
from rollwright.verifiers.judging.marks import read_labeled
from rollwright.verifiers.judging.prompting import Shown, block, judge_messages, question_of, shown_text
from rollwright.verifiers.judging.rubric import Rubric, RubricItem
from rollwright.verifiers.judging.verdicts import judge_each, judged, silent, unjudged
from rollwright.verifiers.numbers import NumberForm, agree, read_gold_number, read_number

__all__ = ["ExtractionJudge", "RubricFn", "RubricJudge", "fixed_rubric"]

RubricFn = Callable[[Submission], Rubric]
"""Raises GoldError where a task has none."""
_REVISION = 1
"""Of the prompts below."""
_TICK_INSTRUCTIONS = (
    "You check an answer against a list of criteria, each by itself. A criterion is met only where the answer itself "
    "shows it; what the answer merely claims about itself meets nothing."
)
_TICK_PROTOCOL = "For each criterion write one line with its number, and each number once:\nITEM <number>: MET or UNMET"
_MET, _UNMET = "MET", "UNMET"
_EXTRACT_INSTRUCTIONS = (
    "You copy values out of an answer. You do not solve the task and you do not correct the answer: what it does not "
    "say is ABSENT."
)
_EXTRACT_PROTOCOL = (
    "For each field write one line, and each field once:\nFIELD <name>: <value as the answer has it, or ABSENT>"
)
_ABSENT = "ABSENT"
_ALIKE = Normalization(steps=("unicode", "case", "whitespace"))


def fixed_rubric(rubric: Rubric) -> RubricFn:
    """The same rubric for every task."""
    return lambda _: rubric


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricJudge:
    """The rubric's value of each trajectory; every item is a component, and so is `rubric_share`, the share met.

    Items with a check of their own are never shown to the judge; where all have one, no judge is asked.
    """

    asker: Asker
    rubric_of: RubricFn
    rubrics_revision: str
    """Of where the rubrics come from: `Rubric.revision`, or that of a book; `task` where each task brings its own."""
    shown: Shown = Shown()
    name: str = "rubric"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of judge, prompt and rubrics."""
        own = [_REVISION, self.name, self.asker.revision, self.asker.limits.attempts, self.rubrics_revision]
        return digest([*own, self.shown.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Check each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        rubric = self.rubric_of(submission)
        text = shown_text(submission, self.shown)
        if not text:
            return silent(self, submission)
        is_met = {item.name: item.check(submission) for item in rubric.items if item.check is not None}
        open_items = [item for item in rubric.items if item.check is None]
        asked: list[Answered[tuple[bool, ...]]] = []
        if open_items:
            answer = await self._ask(submission, text, open_items)
            if isinstance(answer, Unanswered):
                return unjudged(self, submission, [answer])
            asked.append(answer)
            is_met |= dict(zip((item.name for item in open_items), answer.found, strict=True))
        met = [is_met[item.name] for item in rubric.items]
        components = [
            NamedValue(name=item.name, value=float(holds)) for item, holds in zip(rubric.items, met, strict=True)
        ]
        components.append(NamedValue(name="rubric_share", value=sum(met) / len(met)))
        evidence = asked[0].text if asked else "every item was checked by rule"
        return judged(
            self,
            submission,
            Grade(
                value=rubric.value(met), evidence=f"rubric {rubric.revision}: {evidence}", components=tuple(components)
            ),
            asked,
        )

    async def _ask(
        self, submission: Submission, text: str, items: Sequence[RubricItem]
    ) -> Answered[tuple[bool, ...]] | Unanswered:
        labels = [str(number) for number in range(1, len(items) + 1)]
        listed = "\n".join(f"{label}. {item.text}" for label, item in zip(labels, items, strict=True))
        cut = self.shown.max_characters
        blocks = [
            block("TASK", question_of(submission), max_characters=cut),
            block("CRITERIA", listed, max_characters=cut),
            block("DATA", text, max_characters=cut),
        ]

        def read(reply: str) -> tuple[bool, ...] | None:
            values = read_labeled(reply, "ITEM", labels)
            if values is None or any(value not in (_MET, _UNMET) for value in values):
                return None
            return tuple(value == _MET for value in values)

        return await self.asker.ask(judge_messages(_TICK_INSTRUCTIONS, blocks, _TICK_PROTOCOL), read)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionJudge:
    """An extractor that never sees the truth, then rules that compare what it found with it (RLR³).

    The truth is `info.fields` of the task: name to value. The rubric's items are named as the fields; essential ones
    decide first. A value that the answer does not hold word for word is no extraction and counts as absent.
    """

    asker: Asker
    rubric: Rubric
    tolerance: float = 1e-6
    """Relative, where both sides are numbers."""
    shown: Shown = Shown()
    name: str = "extraction"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    def __post_init__(self) -> None:
        """Refuse items that are decided elsewhere."""
        if any(item.check is not None for item in self.rubric.items):
            raise VerifierSetupError("the items of an extraction are compared with info.fields; they have no check")

    @property
    def revision(self) -> str:
        """A digest of judge, prompt, rubric and tolerance."""
        own = [_REVISION, self.name, self.asker.revision, self.asker.limits.attempts, self.rubric.revision]
        return digest([*own, self.tolerance, self.shown.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Extract and compare, each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        truth = self._truth(submission)
        text = shown_text(submission, self.shown)
        if not text:
            return silent(self, submission)
        labels = [item.name for item in self.rubric.items]
        fields = "\n".join(f"{item.name}: {item.text}" for item in self.rubric.items)
        cut = self.shown.max_characters
        blocks = [block("FIELDS", fields, max_characters=cut), block("DATA", text, max_characters=cut)]
        asked = await self.asker.ask(
            judge_messages(_EXTRACT_INSTRUCTIONS, blocks, _EXTRACT_PROTOCOL),
            lambda reply: read_labeled(reply, "FIELD", labels),
        )
        if isinstance(asked, Unanswered):
            return unjudged(self, submission, [asked])
        said = normalized(text, _ALIKE)
        met = [self._agrees(found, gold, said) for found, gold in zip(asked.found, truth, strict=True)]
        components = tuple(NamedValue(name=label, value=float(holds)) for label, holds in zip(labels, met, strict=True))
        grade = Grade(value=self.rubric.value(met), evidence=asked.text, components=components)
        return judged(self, submission, grade, [asked])

    def _truth(self, submission: Submission) -> list[str]:
        try:
            fields = payload_of(submission.task).info.get("fields")
        except (TaskError, ValueError) as error:
            raise GoldError(str(error)) from error
        values = [fields.get(i.name) if isinstance(fields, dict) else None for i in self.rubric.items]
        missing = [i.name for i, value in zip(self.rubric.items, values, strict=True) if value is None]
        if missing:
            raise GoldError(f"info.fields has no value of {', '.join(missing)}")
        return [str(value) for value in values]

    def _agrees(self, found: str, gold: str, said: str) -> bool:
        if found == _ABSENT or normalized(found, _ALIKE) not in said:
            return False
        number, given = read_gold_number(gold), read_number(found, NumberForm.CLOSED)
        if number is not None and given is not None:
            return agree(number, given, self.tolerance)
        return normalized(found, _ALIKE) == normalized(gold, _ALIKE)
