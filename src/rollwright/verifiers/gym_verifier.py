"""The scorers of reasoning-gym as a verifier: its own partial credit, raw, in processes that can be killed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rollwright.record import GradingError, Submission, Verdict, digest
from rollwright.tasks import Json, Payload, gym_version
from rollwright.verifiers.answers import AnswerRule, final_text, tagged_texts
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import (
    PROGRAM_TIMEOUT,
    UNPARSABLE,
    Grade,
    bad_gold,
    gold_payload,
    graded_verdict,
    no_answer,
    ungraded_verdict,
)
from rollwright.verifiers.scorer_pool import ScorerLimits, ScorerPool, ScorerReply

__all__ = ["GymVerifier", "gym_pool", "tagged_answer"]

_REVISION = 1
"""Of the rules in this file."""


def gym_pool(limits: ScorerLimits | None = None) -> ScorerPool:
    """Processes that draw from reasoning-gym and score for it."""
    return ScorerPool("rollwright.verifiers.gym_scorers:open_scorers", {}, limits)


def tagged_answer(submission: Submission, rule: AnswerRule) -> tuple[str | None, int]:
    """What stands in the last `<answer>` of the last turn (several lines may), and how many there are."""
    found = [answer.strip() for answer in tagged_texts(final_text(submission, rule).text)]
    return (found[-1] if found else None), len(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class GymVerifier:
    """A `record.Verifier`; the pool is shared and closed by whoever made it.

    A task says in `info` which generator and parameters it is of, and its entry. What the scorer gives is the grade.
    """

    pool: ScorerPool
    rule: AnswerRule = field(default_factory=AnswerRule)
    """Of reasoning alone; the answer stands between tags."""
    name: str = "reasoning_gym"
    deadline_s: float = 300.0
    """Of a call, waiting for a free process included; the limits of one score are the pool's."""
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules here, the package and the limits."""
        limits = self.pool.limits
        return digest([_REVISION, self.name, self.rule.parts(), gym_version(), limits.cpu_s, limits.memory_bytes])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        try:
            grade = await self._grade(submission)
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        if isinstance(grade, ScorerReply):
            cause: GradingError = "timeout" if grade.status == "wall_limit" else "infrastructure"
            evidence = f"{grade.status}: {grade.value or ''}"[:400]
            return ungraded_verdict(submission, self.name, self.revision, cause, evidence)
        return graded_verdict(submission, self.name, self.revision, grade)

    async def _grade(self, submission: Submission) -> Grade | ScorerReply:
        payload = gold_payload(submission)
        request = _request(payload)
        answer, num_answers = tagged_answer(submission, self.rule)
        if not answer:
            return no_answer(num_answers)
        reply = await self._score(request, answer)
        evidence = f"{answer[:200]!r} for {request['score']}"
        match reply.status:
            case "given" if isinstance(reply.value, int | float):
                return Grade(value=float(reply.value), evidence=evidence)
            case "given":
                return Grade(value=0.0, finding=UNPARSABLE, evidence=f"{evidence}: no text that may be evaluated")
            case "wall_limit" | "killed" | "not_started":
                return reply
            case _:
                return await self._failed(request, reply, evidence)

    async def _failed(self, request: Mapping[str, Json], reply: ScorerReply, evidence: str) -> Grade:
        """A scorer that fails at its own answer is at fault; one that only fails at the policy's is not."""
        entry = request["entry"]
        gold = entry.get("answer") if isinstance(entry, Mapping) else None
        if isinstance(gold, str) and (await self._score(request, gold)).status != "given":
            raise GoldError(f"the scorer of {request['score']} fails at its own answer ({reply.status})")
        finding = PROGRAM_TIMEOUT if reply.status == "cpu_limit" else UNPARSABLE
        return Grade(value=0.0, finding=finding, evidence=f"{evidence}: {reply.status} {reply.value or ''}"[:400])

    async def _score(self, request: Mapping[str, Json], answer: str) -> ScorerReply:
        return await asyncio.wrap_future(self.pool.submit({**request, "answer": answer}))


def _request(payload: Payload) -> dict[str, Json]:
    entry, parameters = payload.info.get("entry"), payload.info.get("parameters")
    name = payload.text("generator")
    if not name or not isinstance(entry, Mapping) or not isinstance(parameters, Mapping):
        raise GoldError("it has no `info.generator`, `info.parameters` and `info.entry`; it is no task of this world")
    return {"score": name, "parameters": parameters, "entry": {**entry, "question": payload.messages[-1].text}}
