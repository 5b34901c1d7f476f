"""Submissions for tests of verifiers."""

import asyncio
from collections.abc import Mapping, Sequence

from rollwright.record import Message, Passage, Submission, Task, Verdict, Verifier
from rollwright.tasks import Json, Payload, make_task

__all__ = ["ask", "submitted", "task_of", "verdict_of"]


def task_of(gold: str, *, question: str = "q?", info: Mapping[str, Json] | None = None) -> Task:
    """A task; a gold answer that no task may hold is put there all the same."""
    if gold.strip():
        payload = Payload(messages=(Message(role="user", text=question),), answer=gold, info=info or {})
        return make_task(payload, source="s", revision="r", split="train")
    return Task(
        task_id="s/0", source="s", revision="r", split="train", payload='{"answer":"","info":{},"question":"q?"}'
    )


def submitted(
    text: str | Sequence[Passage],
    gold: str = "42",
    *,
    reason: str = "model_end",
    question: str = "q?",
    info: Mapping[str, Json] | None = None,
    trajectory_id: str = "t000001-00-0",
) -> Submission:
    """A finished episode whose policy said `text`."""
    passages = (Passage(actor="agent", kind="policy", text=text),) if isinstance(text, str) else tuple(text)
    return Submission(
        trajectory_id=trajectory_id,
        task=task_of(gold, question=question, info=info),
        terminal_reason=reason,
        passages=passages,
        artifacts={},
    )


def ask(verifier: Verifier, *submissions: Submission) -> list[Verdict]:
    """What a verifier says, on a loop of its own."""

    async def scenario() -> list[Verdict]:
        return list(await verifier.verify(submissions))

    return asyncio.run(scenario())


def verdict_of(verifier: Verifier, submission: Submission) -> Verdict:
    """What a verifier says of one."""
    (verdict,) = ask(verifier, submission)
    return verdict
