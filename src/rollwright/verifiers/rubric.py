"""The rewards of an environment of the package `verifiers`, by its own rule, in a process that can be killed."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

from rollwright.record import GradingError, NamedValue, Submission, Verdict, canonical_json, digest
from rollwright.tasks import Json, read_json, verifiers_version
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.grading import bad_gold
from rollwright.verifiers.scorer_pool import ScorerLimits, ScorerPool, ScorerReply

__all__ = ["RubricVerifier", "rubric_pool"]

_REVISION = 1
"""Of the rules in this file."""
_CONVERSATION = "conversation.json"


def rubric_pool(settings: Mapping[str, Json], limits: ScorerLimits | None = None) -> ScorerPool:
    """Processes that load an environment and score its runs."""
    return ScorerPool("rollwright.verifiers.rubric_scores:open_rubric", settings, limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricVerifier:
    """A `record.Verifier`; the pool is shared and closed by whoever made it.

    The outcome is the package's weighted sum; its rewards and metrics, unweighted, are the components. A scorer that
    fails is an error and no number: whose fault it was, the package does not tell.
    """

    pool: ScorerPool
    settings: Mapping[str, Json]
    """Which environment, as the pool has it; part of the revision."""
    name: str = "rubric"
    deadline_s: float = 300.0
    """Of a call, waiting for a free process included; the limits of one score are the pool's."""
    scope: Literal["trajectory"] = "trajectory"

    @property
    def revision(self) -> str:
        """A digest of the rules here, the package and the environment's settings."""
        return digest([_REVISION, self.name, verifiers_version(), canonical_json(self.settings)])[:16]

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge each in order."""
        return [await self._verdict(submission) for submission in submissions]

    async def _verdict(self, submission: Submission) -> Verdict:
        try:
            reply = await asyncio.wrap_future(self.pool.submit(_record(submission)))
        except GoldError as error:
            return bad_gold(submission, self.name, self.revision, error)
        outcome, components = _read(reply)
        return Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=self.name,
            revision=self.revision,
            scope="trajectory",
            outcome=outcome,
            components=components,
            evidence="" if reply.status == "given" else f"{reply.status}: {reply.value or ''}"[:400],
        )


def _record(submission: Submission) -> Json:
    try:
        return read_json(submission.artifacts[_CONVERSATION].decode())
    except (KeyError, ValueError) as error:
        raise GoldError(f"the environment left no {_CONVERSATION} that can be read: {error!r}") from error


def _read(reply: ScorerReply) -> tuple[float | GradingError, tuple[NamedValue, ...]]:
    match reply.status:
        case "given":
            given = cast("Mapping[str, Mapping[str, float]]", reply.value)
            named = {**given["metrics"], **given["rewards"]}
            components = tuple(NamedValue(name=name, value=value) for name, value in sorted(named.items()))
            return float(cast("float", given["reward"])), components
        case "cpu_limit" | "wall_limit":
            return "timeout", ()
        case "not_started" | "killed" | "crashed":
            return "infrastructure", ()
        case _:
            return "grader_error", ()
