"""Several verdicts become one reward, with every raw part kept; an error never becomes a number.

submissions of one group ──► each verifier, under its deadline ──► verdicts ──► outcome: a reward, or why there is none

reward = (sum of weight * value over outcome and shaping parts) * (product of the gates' values)
"""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import (
    GradingError,
    RewardComponent,
    Submission,
    TerminalReason,
    Verdict,
    Verifier,
    digest,
)
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.restating import LARGEST_VALUE, describe, restate, shorten

__all__ = ["Composition", "Part", "Role", "Score"]

Role = Literal["outcome", "shaping", "gate"]
_RULE = 1
"""Of the formula above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A verifier with its place in the reward."""

    verifier: Verifier
    weight: float = 1.0
    """Of its value in the sum; a gate's does not count. With weight 0 a part is watched, and cannot spoil a score."""
    role: Role = "outcome"
    """`outcome`: whether the task was solved. `shaping`: form, cost, style. `gate`: at 0 nothing is paid."""

    @property
    def is_counted(self) -> bool:
        """Whether the reward depends on it."""
        return self.role == "gate" or self.weight != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """What a trajectory is worth, and all that was said about it."""

    trajectory_id: str
    verdicts: tuple[Verdict, ...]
    outcome: float | str
    """The reward, or the reason why there is none."""
    reward_components: tuple[RewardComponent, ...]
    """The raw value and weight of each part that gave a number."""
    reward_rule: str
    """The composition's revision."""
    verifying_s: float


class Composition:
    """A weighted reward over verifiers; holds no state between calls."""

    def __init__(self, parts: Sequence[Part], *, max_shaping: float = 1.0) -> None:
        """Check and store the parts.

        Args:
            parts: in the order in which they are reported.
            max_shaping: how much all shaping weights together may be, relative to all outcome weights.

        Raises:
            VerifierSetupError: for repeated names, weights that are no numbers, no outcome, or too much shaping.
        """
        names = [part.verifier.name for part in parts]
        if not names or len(names) != len(set(names)):
            raise VerifierSetupError(f"a composition needs verifiers with different names; it has {names}")
        if not all(math.isfinite(part.weight) for part in parts):
            raise VerifierSetupError("a weight is not a finite number")
        paid = sum(abs(part.weight) for part in parts if part.role == "outcome")
        shaping = sum(abs(part.weight) for part in parts if part.role == "shaping")
        if paid == 0:
            raise VerifierSetupError("no part of role `outcome` has a weight; nothing would say that a task was solved")
        if shaping > max_shaping * paid:
            raise VerifierSetupError(
                f"shaping weights are {shaping:g} in all and outcome weights {paid:g}; shaping may be at most "
                f"{max_shaping:g} times the outcome. Lower it, or set max_shaping on purpose"
            )
        self._parts = tuple(parts)
        self._revision = digest(
            [_RULE, [[p.verifier.name, p.verifier.revision, p.verifier.scope, p.weight, p.role] for p in parts]]
        )[:16]

    @property
    def revision(self) -> str:
        """The `reward_rule` of every score: formula, parts, weights, and the verifiers' own revisions."""
        return self._revision

    @property
    def parts(self) -> tuple[Part, ...]:
        """In the order given."""
        return self._parts

    async def score(self, submissions: Sequence[Submission]) -> tuple[Score, ...]:
        """Judge the finished trajectories of one group.

        A verifier that raises, hangs, or answers with something else than one verdict for each gives no number: the
        trajectory is unscored with the cause `grader_error` or `timeout`, and the others are not touched. Trajectories
        that ended by no doing of the policy are not judged at all.

        Args:
            submissions: of one group, in the order of its slots.

        Returns:
            A score for each, in the same order.
        """
        judged = [s for s in submissions if _is_judged(s)]
        async with asyncio.TaskGroup() as group:
            running = [
                group.create_task(_judge(part.verifier, judged), name=f"verify {part.verifier.name}")
                for part in self._parts
            ]
        columns = [task.result() for task in running]
        rows = dict(zip((s.trajectory_id for s in judged), zip(*columns, strict=True), strict=True))
        return tuple(self._score(s, rows.get(s.trajectory_id, ())) for s in submissions)

    def _score(self, submission: Submission, verdicts: tuple[Verdict, ...]) -> Score:
        outcome = self._outcome(verdicts) if _is_judged(submission) else submission.terminal_reason
        components = [
            RewardComponent(name=verdict.verifier, value=verdict.outcome, weight=part.weight)
            for part, verdict in zip(self._parts, verdicts, strict=False)
            if not isinstance(verdict.outcome, str)
        ]
        return Score(
            trajectory_id=submission.trajectory_id,
            verdicts=verdicts,
            outcome=outcome,
            reward_components=tuple(components),
            reward_rule=self._revision,
            verifying_s=sum(verdict.latency_s for verdict in verdicts),
        )

    def _outcome(self, verdicts: Sequence[Verdict]) -> float | str:
        """The reward, or the first cause for which there is none; a sum that is no number is a grader's error."""
        total, gate = 0.0, 1.0
        for part, verdict in zip(self._parts, verdicts, strict=True):
            if not part.is_counted:
                continue
            if isinstance(verdict.outcome, str):
                return verdict.outcome
            if part.role == "gate":
                gate *= verdict.outcome
            else:
                total += part.weight * verdict.outcome
        reward = total * gate
        return reward if math.isfinite(reward) and abs(reward) <= LARGEST_VALUE else "grader_error"


def _is_judged(submission: Submission) -> bool:
    return TerminalReason(submission.terminal_reason).is_trainable


async def _judge(verifier: Verifier, submissions: Sequence[Submission]) -> list[Verdict]:
    """One verdict a submission. Trajectories are judged apart, so that one cannot spoil another's verdict."""
    if verifier.scope == "group":
        return await _call(verifier, submissions) if submissions else []
    async with asyncio.TaskGroup() as group:
        running = [
            group.create_task(_call(verifier, (s,)), name=f"{verifier.name} on {s.trajectory_id}") for s in submissions
        ]
    return [verdict for task in running for verdict in task.result()]


async def _call(verifier: Verifier, submissions: Sequence[Submission]) -> list[Verdict]:
    started = time.monotonic()
    try:
        async with asyncio.timeout(verifier.deadline_s):
            answer = await verifier.verify(submissions)
        return restate(verifier, answer, submissions, _share_s(started, submissions))
    except TimeoutError:
        cause: GradingError = "timeout"
        problem = f"no verdict within {verifier.deadline_s:g} seconds"
    except Exception as error:  # noqa: BLE001 - the one place where a verifier's failure becomes a record
        cause, problem = "grader_error", describe(error)
    except (SystemExit, KeyboardInterrupt, asyncio.CancelledError) as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise  # It is this task that is to end, not the verifier that gave up.
        cause, problem = "grader_error", describe(error)
    return [
        Verdict(
            trajectory_id=submission.trajectory_id,
            verifier=verifier.name,
            revision=verifier.revision,
            scope=verifier.scope,
            outcome=cause,
            evidence=shorten(problem),
            latency_s=_share_s(started, submissions),
        )
        for submission in submissions
    ]


def _share_s(started: float, submissions: Sequence[Submission]) -> float:
    """Seconds since then, for each submission."""
    return (time.monotonic() - started) / len(submissions)
