"""A judge's replies kept by their question, so that a run is scored again without the judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rollwright.record import Message, digest
from rollwright.verifiers.judging.client import JudgeClient, JudgeReply, JudgeUnavailableError

__all__ = ["JudgeRecorder", "ReplayedJudge", "question_digest"]


def question_digest(revision: str, messages: Sequence[Message]) -> str:
    """Names a question to one judge."""
    return digest([revision, [[m.role, m.text] for m in messages]])


class JudgeRecorder:
    """Asks a judge once for each question and keeps the reply."""

    def __init__(self, client: JudgeClient, known: Mapping[str, str] | None = None) -> None:
        """Start with replies that are known already."""
        self._client = client
        self._replies = dict(known or {})

    @property
    def revision(self) -> str:
        """Of the judge: a kept reply is the judge's own."""
        return self._client.revision

    @property
    def replies(self) -> Mapping[str, str]:
        """By digest of their question; JSON holds them."""
        return self._replies

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """The kept reply, or a new one."""
        key = question_digest(self.revision, messages)
        if key in self._replies:
            return JudgeReply(text=self._replies[key], cost=0.0)
        reply = await self._client.complete(messages)
        self._replies[key] = reply.text
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJudge:
    """Replies from a record alone; what was never asked has no reply."""

    revision: str
    """Of the judge that gave them."""
    replies: Mapping[str, str]

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """The kept reply."""
        key = question_digest(self.revision, messages)
        if key not in self.replies:
            raise JudgeUnavailableError(f"the record holds no reply to question {key[:16]} of judge {self.revision}")
        return JudgeReply(text=self.replies[key], cost=0.0)
