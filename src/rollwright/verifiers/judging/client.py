"""Whoever writes a judgment: a model behind a server, an engine of ours, or replies that were kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rollwright.record import Message

__all__ = ["JudgeClient", "JudgeReply", "JudgeUnavailableError"]


class JudgeUnavailableError(Exception):
    """The judge could not be reached or refused to answer: nobody's fault that is graded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """What the judge wrote."""

    text: str
    """Without its reasoning, where the back-end tells the two apart."""
    cost: float | None = None
    """In the unit of the recipe's prices; None where it is not known."""


class JudgeClient(Protocol):
    """One conversation in, one reply out. Safe to call from several tasks and event loops."""

    @property
    def revision(self) -> str:
        """A digest of the model and of how it is decoded."""
        ...

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """The reply to a conversation.

        Raises:
            JudgeUnavailableError: where there is none; it is asked again a bounded number of times.
        """
        ...
