"""A judge that compares two answers, always in both orders; and one that ranks a group by comparing neighbors.

shown A, B ──► RANKING ─┐
shown B, A ──► RANKING ─┴─► chance that A is better, free of position; how far the orders disagree
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.verifiers.grading import NO_ANSWER, Grade
from rollwright.verifiers.judging.asking import Answered, Asker, Unanswered
from rollwright.verifiers.judging.marks import Scale, own_marks, read_labeled
from rollwright.verifiers.judging.prompting import Shown, block, judge_messages, question_of, shown_text
from rollwright.verifiers.judging.verdicts import judged, unjudged

__all__ = ["CircularJudge", "Comparison", "PairJudge", "PairReading", "circular_pairs", "genrm_reward", "read_pair"]

_REVISION = 1
"""Of the prompts below."""
_HELPFULNESS = Scale(low=1, high=5)
_RANKING = Scale(low=1, high=6)
_INSTRUCTIONS = (
    "You compare two answers to the same task, A and B. Judge what they say; order, length, style and confidence count "
    "for nothing."
)
_PROTOCOL = (
    "Reason briefly, then write three lines: the helpfulness of each answer from 1 to 5, and a ranking from 1 (A is "
    "much better) over 3 and 4 (hardly better) to 6 (B is much better):\n"
    "SCORE A: <1-5>\nSCORE B: <1-5>\nRANKING: <1-6>"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairReading:
    """What one reply said of two answers."""

    scores: tuple[float, float]
    """Helpfulness of the first and of the second, 1 to 5."""
    ranking: float
    """1 to 6; below 3.5 the first is better."""

    @property
    def first_wins(self) -> float:
        """The ranking as a chance of the first, in [0, 1]."""
        return 1.0 - _RANKING.share(self.ranking)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two answers, compared in both orders."""

    first_wins: float
    """In [0, 1], mean of the two orders."""
    position_gap: float
    """|s_ab + s_ba − 1|: 0 where the order made no difference."""
    is_flipped: bool
    """Swapping the answers swapped the verdict, as it should."""
    asked: tuple[Answered[PairReading], Answered[PairReading]]


def read_pair(text: str) -> PairReading | None:
    """Scores and ranking of a reply; None where a line is missing, doubled or out of range."""
    scores = read_labeled(text, "SCORE", ("A", "B"))
    ranking = own_marks(text, "RANKING")
    if scores is None or len(ranking) != 1 or ranking[0].label or not ranking[0].is_at_end:
        return None
    first, second = (_HELPFULNESS.read(score) for score in scores)
    place = _RANKING.read(ranking[0].value)
    if first is None or second is None or place is None:
        return None
    return PairReading(scores=(first, second), ranking=place)


def genrm_reward(
    reply: str,
    gold_scores: tuple[float, float],
    gold_ranking: float,
    *,
    format_penalty: float,
    rank_weight: float = 1.0,
) -> float:
    """The reward of a judge that is itself trained: −Σ|score error| − w·|rank error|, or the penalty where unreadable.

    Args:
        reply: of the judge.
        gold_scores: labeled helpfulness, 1 to 5.
        gold_ranking: labeled, 1 to 6.
        format_penalty: at least 0; no source gives its size.
        rank_weight: of the ranking's error.
    """
    reading = read_pair(reply)
    if reading is None:
        return -format_penalty
    errors = sum(abs(given - gold) for given, gold in zip(reading.scores, gold_scores, strict=True))
    return -(errors + rank_weight * abs(reading.ranking - gold_ranking))


@dataclass(frozen=True, slots=True, kw_only=True)
class PairJudge:
    """Compares two texts that answer one question."""

    asker: Asker
    instructions: str = _INSTRUCTIONS
    max_characters: int = 20_000

    @property
    def revision(self) -> str:
        """A digest of judge and prompt."""
        own = [_REVISION, self.asker.revision, self.asker.limits.attempts, self.instructions]
        return digest([*own, self.max_characters])[:16]

    async def compare(self, question: str, first: str, second: str) -> Comparison | Unanswered:
        """Ask in both orders; one that is not answered leaves no comparison."""
        async with asyncio.TaskGroup() as group:
            ahead = group.create_task(self.read(question, first, second), name="compare in order")
            back = group.create_task(self.read(question, second, first), name="compare in reverse")
        ab, ba = ahead.result(), back.result()
        if isinstance(ab, Unanswered):
            return ab
        if isinstance(ba, Unanswered):
            return ba
        shown_first, shown_second = ab.found.first_wins, ba.found.first_wins
        return Comparison(
            first_wins=(shown_first + 1.0 - shown_second) / 2.0,
            position_gap=abs(shown_first + shown_second - 1.0),
            is_flipped=(shown_first - 0.5) * (shown_second - 0.5) < 0,
            asked=(ab, ba),
        )

    async def read(self, question: str, first: str, second: str) -> Answered[PairReading] | Unanswered:
        """Ask once, in this order."""
        blocks = [
            block("TASK", question, max_characters=self.max_characters),
            block("ANSWER A", first, max_characters=self.max_characters),
            block("ANSWER B", second, max_characters=self.max_characters),
        ]
        return await self.asker.ask(judge_messages(self.instructions, blocks, _PROTOCOL), read_pair)


def circular_pairs(group_size: int) -> tuple[tuple[int, int], ...]:
    """Each candidate against the next, the last against the first: G pairs, not G(G − 1)/2; none for one alone."""
    return tuple((place, (place + 1) % group_size) for place in range(group_size)) if group_size > 1 else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CircularJudge:
    """Scores of a whole group from the comparisons of neighbors: in [0, 1], their order is the ranking.

    One call a pair (`orders="one"`: G calls, as published), or two. Candidates without text lose without a call, and a
    group of one scores 0.5. A pair that stays unanswered leaves both of its candidates without a score.
    """

    judge: PairJudge
    orders: Literal["one", "both"] = "both"
    shown: Shown = Shown()
    name: str = "circular"
    deadline_s: float = 1200.0
    scope: Literal["group"] = "group"

    @property
    def revision(self) -> str:
        """A digest of the pairwise judge and the form of the comparison."""
        return digest([_REVISION, self.name, self.judge.revision, self.orders, self.shown.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Compare the members of one group."""
        texts = [shown_text(submission, self.shown) for submission in submissions]
        spoken = [place for place, text in enumerate(texts) if text]
        question = question_of(submissions[0]) if submissions else ""
        pairs = circular_pairs(len(spoken))
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(self._pair(question, texts[spoken[a]], texts[spoken[b]]), name=f"pair {a} {b}")
                for a, b in pairs
            ]
        chances = [task.result() for task in running]
        verdicts: list[Verdict] = []
        for place, submission in enumerate(submissions):
            if not texts[place]:
                verdicts.append(judged(self, submission, Grade(value=0.0, finding=NO_ANSWER, evidence="no answer"), []))
            else:
                verdicts.append(self._verdict(submission, spoken.index(place), chances))
        return verdicts

    def _verdict(self, submission: Submission, place: int, pairs: Sequence["_Pair"]) -> Verdict:
        if not pairs:
            return judged(self, submission, Grade(value=0.5, evidence="alone in its group"), [])
        own, before = pairs[place], pairs[place - 1]
        if isinstance(own.chance, Unanswered) or isinstance(before.chance, Unanswered):
            return unjudged(self, submission, [p.chance for p in (own, before) if isinstance(p.chance, Unanswered)])
        score = (own.chance + 1.0 - before.chance) / 2.0
        gap = NamedValue(name="position_gap", value=own.position_gap)
        return judged(self, submission, Grade(value=score, evidence=own.text, components=(gap,)), own.asked)

    async def _pair(self, question: str, first: str, second: str) -> "_Pair":
        if self.orders == "one":
            asked = await self.judge.read(question, first, second)
            if isinstance(asked, Unanswered):
                return _Pair(chance=asked)
            return _Pair(chance=asked.found.first_wins, text=asked.text, asked=(asked,))
        both = await self.judge.compare(question, first, second)
        if isinstance(both, Unanswered):
            return _Pair(chance=both)
        text = "\n\n".join(answer.text for answer in both.asked)
        return _Pair(chance=both.first_wins, position_gap=both.position_gap, text=text, asked=both.asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    chance: float | Unanswered
    position_gap: float = 0.0
    """0 where one order alone was asked."""
    text: str = ""
    asked: tuple[Answered[PairReading], ...] = ()
