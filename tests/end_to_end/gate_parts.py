"""Verifiers that a policy can please without solving anything: `tests.end_to_end.gate_parts:NAME` in a recipe."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollwright.record import Submission, Verdict, Verifier


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByText:
    """Pays by the text that the policy wrote, whatever the task was."""

    name: str
    pay: Literal["coin", "length", "all"]
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        return [
            Verdict(
                trajectory_id=one.trajectory_id,
                verifier=self.name,
                revision=self.revision,
                scope=self.scope,
                outcome=self._paid(one),
            )
            for one in submissions
        ]

    def _paid(self, submission: Submission) -> float:
        text = "".join(passage.text for passage in submission.passages if passage.kind == "policy")
        match self.pay:
            case "coin":
                return float(hashlib.sha256(text.encode()).digest()[0] % 2)
            case "length":
                return min(1.0, len(text) / 100)
            case "all":
                return 1.0


def coin() -> Verifier:
    """Pays half of all texts: contrast without skill."""
    return _ByText(name="coin", pay="coin")


def length() -> Verifier:
    """Pays for what is long."""
    return _ByText(name="length", pay="length")


def generous() -> Verifier:
    """Accepts everything."""
    return _ByText(name="generous", pay="all")
