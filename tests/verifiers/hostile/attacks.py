"""Reads attacks on verifiers, plays them, and says what each earned and how long it took."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rollwright.record import Message, Passage, Submission, Task, Verdict, Verifier
from rollwright.tasks import Payload, make_task

__all__ = ["FOLDER", "Attack", "Earned", "read_attacks", "submission_of", "task_of", "text_of", "verified"]

FOLDER = Path(__file__).parents[2] / "data" / "attacks" / "verifiers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """A row of the data."""

    id: str
    kind: str
    tries: str
    row: dict[str, Any]
    earns: float = 0.0
    """Exactly; what was done honestly is paid."""
    most: float = 0.0
    """More than `earns` where a right answer in an odd form may be paid or not."""
    is_slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Earned:
    """What came of an attack."""

    attack: Attack
    verdict: Verdict
    took_s: float

    def complaint(self, *, within_s: float) -> str | None:
        """What is wrong with it; None where the attack failed as it should."""
        outcome = self.verdict.outcome
        if isinstance(outcome, str):
            return f"{self.attack.id}: no number but {outcome}: {self.verdict.evidence[:200]}"
        if not self.attack.earns - 1e-6 <= outcome <= max(self.attack.earns, self.attack.most) + 1e-6:
            return f"{self.attack.id}: paid {outcome}: {self.verdict.evidence[:200]}"
        if self.took_s > within_s:
            return f"{self.attack.id}: took {self.took_s:.1f} s"
        return None


def read_attacks(name: str) -> tuple[Attack, ...]:
    """The rows of a file."""
    rows = [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
    return tuple(
        Attack(
            id=row["id"],
            kind=row["kind"],
            tries=row["tries"],
            row=row,
            earns=row.get("earns", 0.0),
            most=row.get("most", 0.0),
            is_slow=row.get("slow", False),
        )
        for row in rows
    )


def text_of(given: str | list[list[Any]]) -> str:
    """A text; long ones are written as pieces with how often each stands there."""
    return given if isinstance(given, str) else "".join(piece * times for piece, times in given)


def task_of(row: dict[str, Any]) -> Task:
    """The task that is attacked."""
    payload = Payload(
        messages=(Message(role="user", text=row["question"]),), answer=row["answer"], info=row.get("info", {})
    )
    return make_task(payload, source="attacks", revision="1", split="held_out")


def submission_of(row: dict[str, Any], task: Task | None = None) -> Submission:
    """What the verifier is shown."""
    spoken: list[Any] = row["passages"] if "passages" in row else [["policy", row["text"]]]
    return Submission(
        trajectory_id=row["id"],
        task=task or task_of(row),
        terminal_reason="model_end",
        passages=tuple(Passage(actor="agent", kind=kind, text=text_of(text)) for kind, text in spoken),
        artifacts={},
    )


async def verified(verifier: Verifier, attacks: Sequence[Attack], submission: Submission | None = None) -> list[Earned]:
    """One after another, each under the verifier's own deadline; `submission` where a row alone does not make it."""
    found: list[Earned] = []
    for attack in attacks:
        shown = submission or submission_of(attack.row)
        began = time.monotonic()
        async with asyncio.timeout(verifier.deadline_s + 5.0):
            (verdict,) = await verifier.verify([shown])
        found.append(Earned(attack=attack, verdict=verdict, took_s=time.monotonic() - began))
    return found
