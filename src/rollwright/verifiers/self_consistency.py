"""How far an answer depends on the end of its reasoning: cut the trace, let it be finished again, compare (SCS).

trace ──cut at each share──► finished again, some times ──► answers ──► share that equals the trace's own
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import NamedValue, Submission, Verdict, digest
from rollwright.verifiers.answers import AnswerRule, read_answer
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.exact import Normalization, normalized
from rollwright.verifiers.grading import Grade, no_answer
from rollwright.verifiers.judging.verdicts import judge_each, judged

__all__ = ["FinishFn", "SelfConsistencyVerifier"]

FinishFn = Callable[[Submission, float, int], Awaitable[Submission]]
"""(trace, share that is kept, number of the try) to the trace finished anew from there; handed in by the wiring.

Equal arguments give equal traces, or the weight is not the same twice."""
_REVISION = 1
_ALIKE = Normalization(steps=("unicode", "case", "whitespace"))


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfConsistencyVerifier:
    """A weight in [0, 1] for a trace, to be a gate: 1 where every continuation comes to the same answer.

    The component `flips` counts the continuations that came to another one, or to none.
    """

    finish: FinishFn
    finisher: str
    """Of the model that continues and its decoding; part of the revision."""
    rule: AnswerRule = AnswerRule()
    cuts: tuple[float, ...] = (0.5, 0.75)
    """Shares of the trace that are kept."""
    tries: int = 2
    """Continuations of each cut."""
    name: str = "self_consistency"
    deadline_s: float = 600.0
    scope: Literal["trajectory"] = "trajectory"

    def __post_init__(self) -> None:
        """Refuse cuts that keep all or nothing at all."""
        if not self.cuts or self.tries < 1 or not all(0 < cut < 1 for cut in self.cuts):
            raise VerifierSetupError(
                f"cuts={self.cuts}, tries={self.tries}; needed are cuts between 0 and 1, and a try of each"
            )

    @property
    def revision(self) -> str:
        """A digest of who finishes, the cuts and the reading."""
        return digest([_REVISION, self.name, self.finisher, list(self.cuts), self.tries, self.rule.parts()])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Perturb and compare, each by itself."""
        return await judge_each(self, submissions, self._judge)

    async def _judge(self, submission: Submission) -> Verdict:
        own = self._answer(submission)
        if own is None:
            return judged(self, submission, no_answer(0), [])
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(self._finished(submission, cut, number), name=f"finish from {cut:g}, try {number}")
                for cut in self.cuts
                for number in range(self.tries)
            ]
        answers = [self._answer(task.result()) for task in running]
        flips = sum(answer != own for answer in answers)
        grade = Grade(
            value=1.0 - flips / len(answers),
            evidence=f"{own[:100]!r}, then {[None if a is None else a[:40] for a in answers]}",
            components=(NamedValue(name="flips", value=flips),),
        )
        return judged(self, submission, grade, [])

    async def _finished(self, submission: Submission, cut: float, number: int) -> Submission:
        return await self.finish(submission, cut, number)

    def _answer(self, submission: Submission) -> str | None:
        answer = read_answer(submission, self.rule).answer
        return None if not answer else normalized(answer, _ALIKE)
