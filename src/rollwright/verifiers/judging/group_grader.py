"""A grader that looks at a whole group at once, in two orders, and may ask to see more of a member.

    all members, each cut ──► INSPECT k? ──► that member whole, at most `inspections` times ──► CANDIDATE k: factor
    the same in reverse order ─────────────────────────────────────────────────────────────────► mean of the two

Its factors in (0, 1] are the `quality` by which advantage is moved among passing attempts (M29). A grader that fails
gives no number, and then nothing is moved.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Literal

import numpy as np

from rollwright.record import GradingError, Message, NamedValue, Submission, Verdict, digest
from rollwright.statistics import spearman
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.grading import NO_ANSWER
from rollwright.verifiers.judging.asking import Asker, Unanswered
from rollwright.verifiers.judging.marks import Scale, own_marks, read_labeled
from rollwright.verifiers.judging.prompting import Shown, block, judge_messages, question_of, shown_text
from rollwright.verifiers.restating import shorten

__all__ = ["GradingBudget", "GroupGrader", "quality_factors"]

_REVISION = 1
_INSTRUCTIONS = (
    "You compare several attempts at one task. Passing tests is known already; grade how sound each attempt is: does "
    "it solve the task as it was meant, without tricks, and without needless steps."
)
_PROTOCOL = (
    "Grade every attempt from {low:g} to {high:g}, one line each and nothing behind them:\n"
    "CANDIDATE <number>: <grade>\n"
    "To see more of one first, reply with the single line VERDICT: INSPECT <number> ({left} times more)."
)
_CLOSED = (
    "Grade every attempt from {low:g} to {high:g}, one line each and nothing behind them:\nCANDIDATE <number>: <grade>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradingBudget:
    """What one order of one group may cost."""

    inspections: int = 2
    """Members that the grader may ask to see whole."""
    preview_characters: int = 2_000
    """Of each member at first."""

    def __post_init__(self) -> None:
        """Refuse a budget under which nothing is seen."""
        if self.inspections < 0 or self.preview_characters < 1:
            raise VerifierSetupError(
                f"inspections={self.inspections}, preview_characters={self.preview_characters}; needed: 0 and 1 or more"
            )


@dataclass(slots=True, kw_only=True)
class _Order:
    """One order as it was graded."""

    grades: tuple[float, ...] = ()
    """By place in the group."""
    failed: Unanswered | None = None
    inspections: int = 0
    calls: int = 0
    costs: list[float] = field(default_factory=list[float])
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupGrader:
    """A factor for each member of a group, scope `group`; agreement of the two orders and the budget are components."""

    asker: Asker
    budget: GradingBudget = GradingBudget()
    scale: Scale = Scale(low=1, high=10)
    shown: Shown = Shown(part="episode")
    min_agreement: float = 0.0
    """Rank correlation of the two orders below which the group gets no number; where it is undefined, none is asked."""
    name: str = "quality"
    deadline_s: float = 1200.0
    scope: Literal["group"] = "group"

    def __post_init__(self) -> None:
        """Refuse a scale that reaches 0: a factor of 0 would take all of an attempt's advantage."""
        if self.scale.low <= 0:
            raise VerifierSetupError(f"the scale begins at {self.scale.low:g}; a quality factor lies above 0")

    @property
    def revision(self) -> str:
        """A digest of judge, prompt, scale and budget."""
        budget = [self.budget.inspections, self.budget.preview_characters]
        own = [_REVISION, self.name, self.asker.revision, self.asker.limits.attempts, float(self.min_agreement)]
        return digest([*own, self.scale.low, self.scale.high, budget, self.shown.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Grade the members of one group."""
        texts = [shown_text(submission, self.shown) for submission in submissions]
        places = [place for place, text in enumerate(texts) if text]
        if not places:
            return [self._silent(submission) for submission in submissions]
        question = question_of(submissions[0])
        async with asyncio.TaskGroup() as group:
            forward = group.create_task(self._grade(question, texts, places), name="grade in order")
            backward = group.create_task(self._grade(question, texts, places[::-1]), name="grade in reverse")
        orders = (forward.result(), backward.result())
        return [
            self._verdict(submission, place, places, orders) if texts[place] else self._silent(submission)
            for place, submission in enumerate(submissions)
        ]

    async def _grade(self, question: str, texts: Sequence[str], order: Sequence[int]) -> _Order:
        """Grade once, with the members listed in this order."""
        found = _Order()
        seen: list[int] = []
        labels = [str(number) for number in range(1, len(order) + 1)]
        while True:
            left = self.budget.inspections - len(seen)
            asked = await self.asker.ask(
                self._question(question, texts, order, seen),
                lambda reply, left=left: _read(reply, labels, left, self.scale),
            )
            found.calls += asked.calls
            found.costs += [] if asked.cost is None else [asked.cost]
            found.text = asked.text
            found.inspections = len(seen)
            if isinstance(asked, Unanswered):
                found.failed = asked
                return found
            if isinstance(asked.found, int):
                seen.append(order[asked.found - 1])
                continue
            by_place = dict(zip(order, asked.found, strict=True))
            found.grades = tuple(by_place.get(place, self.scale.low) for place in range(len(texts)))
            return found

    def _question(
        self, question: str, texts: Sequence[str], order: Sequence[int], seen: Sequence[int]
    ) -> tuple[Message, ...]:
        blocks = [block("TASK", question, max_characters=self.shown.max_characters)]
        for number, place in enumerate(order, start=1):
            room = self.shown.max_characters if place in seen else self.budget.preview_characters
            blocks.append(block(f"ATTEMPT {number}", texts[place], max_characters=room))
        left = self.budget.inspections - len(seen)
        protocol = _PROTOCOL if left > 0 else _CLOSED
        return judge_messages(
            _INSTRUCTIONS, blocks, protocol.format(low=self.scale.low, high=self.scale.high, left=left)
        )

    def _verdict(
        self, submission: Submission, place: int, places: Sequence[int], orders: tuple[_Order, _Order]
    ) -> Verdict:
        failed = next((order.failed for order in orders if order.failed is not None), None)
        agreement = None if failed is not None else _agreement(orders, places)
        components = [
            NamedValue(name="judge_calls", value=sum(order.calls for order in orders) / len(places)),
            NamedValue(name="inspections", value=sum(order.inspections for order in orders)),
        ]
        costs = [cost for order in orders for cost in order.costs]
        if agreement is not None:
            components.append(NamedValue(name="order_agreement", value=agreement))
        outcome: float | GradingError
        if failed is not None:
            outcome = failed.cause
        elif agreement is not None and agreement < self.min_agreement:
            outcome = "grader_error"
        else:
            outcome = fmean(order.grades[place] for order in orders) / self.scale.high
            gap = abs(orders[0].grades[place] - orders[1].grades[place]) / self.scale.high
            components.append(NamedValue(name="order_gap", value=gap))
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope="group",
            outcome=outcome,
            components=tuple(components),
            evidence=shorten("\n\n".join(order.text for order in orders)),
            cost=sum(costs) / len(places) if costs else None,
        )

    def _silent(self, submission: Submission) -> Verdict:
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope="group",
            outcome=self.scale.low / self.scale.high,
            finding=NO_ANSWER,
            evidence="no answer",
        )


def quality_factors(verdicts: Sequence[Verdict]) -> tuple[float, ...]:
    """The factors of a group for redistribution; NaN where there is no grade, so that its advantage stays."""
    return tuple(float("nan") if isinstance(v.outcome, str) else v.outcome for v in verdicts)


def _read(reply: str, labels: Sequence[str], left: int, scale: Scale) -> int | tuple[float, ...] | None:
    """The member to look at, or all grades."""
    asks = own_marks(reply, "VERDICT")
    if len(asks) == 1 and asks[0].is_at_end and left > 0 and not own_marks(reply, "CANDIDATE"):
        word, _, number = asks[0].value.strip(" *_.").partition(" ")
        return int(number) if word == "INSPECT" and number in labels else None
    values = read_labeled(reply, "CANDIDATE", labels)
    grades = [] if values is None else [grade for value in values if (grade := scale.read(value)) is not None]
    return tuple(grades) if len(grades) == len(labels) else None


def _agreement(orders: tuple[_Order, _Order], places: Sequence[int]) -> float | None:
    first, second = (np.array([order.grades[p] for p in places], dtype=np.float64) for order in orders)
    return spearman(first, second)
