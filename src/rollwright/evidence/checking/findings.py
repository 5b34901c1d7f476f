"""What `check` says: findings, each with its place, and what nobody can check."""

from dataclasses import dataclass
from typing import Literal

__all__ = ["CheckReport", "Concern", "Finding", "Severity"]

Severity = Literal["fault", "loss"]
"""`fault`: two things that the run says contradict each other. `loss`: something that it had is not there."""

Concern = Literal[
    "files",
    "keys",
    "episodes",
    "calls",
    "rewards",
    "ledger",
    "gradients",
    "numbers",
    "evaluations",
    "recipe",
    "weights",
]
"""The part of the run that a finding is about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with its place."""

    place: str
    """As exact as can be: a file; a row by its key; a token as `TRAJECTORY/SEGMENT/INDEX`."""
    text: str
    """What is wrong."""
    expected: str = ""
    """What should be there; empty where the text says it."""
    concern: Concern = "files"
    severity: Severity = "fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, and what could not be looked at."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    num_commits: int
    num_receipts: int
    num_trajectories: int = 0

    @property
    def is_sound(self) -> bool:
        """True where nothing is wrong with what can be checked."""
        return not self.findings
