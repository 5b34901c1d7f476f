"""Verifiers, tools and environments from outside the project, as a recipe names them: `tests.end_to_end.parts:NAME`."""

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Submission, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Pays 1 for about half of all texts, by a digest of what the policy wrote: contrast without skill."""

    name: str = "parity"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Raises on about a third of all texts, and pays by parity otherwise."""

    name: str = "broken"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        if any(_number(s) % 3 == 0 for s in submissions):
            raise ZeroDivisionError("the grader divided by zero")
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """Hangs on a few texts, in a call that no deadline can end."""

    name: str = "hung"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 0.3

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        if any(s.trajectory_id.startswith("t") and _number(s) % 8 == 0 for s in submissions):
            time.sleep(1.0)  # noqa: ASYNC251 - blocking on purpose: that is what a bad grader does
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


def parity() -> Parity:
    """A verifier."""
    return Parity()


def broken() -> Broken:
    """A verifier."""
    return Broken()


def hung() -> Hung:
    """A verifier."""
    return Hung()


def _number(submission: Submission) -> int:
    text = "\n".join(p.text for p in submission.passages if p.kind in ("policy", "reasoning"))
    return hashlib.sha256(f"{submission.task.task_id}{text}".encode()).digest()[0]


def _verdict(verifier: Parity | Broken | Hung, submission: Submission, value: float) -> Verdict:
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=value,
    )
