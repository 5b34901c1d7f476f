"""Ask a judge until its reply can be read: bounded in tries, in time, and in how many ask at once.

conversation ──► a place ──► client, under its timeout ──► read ──► an answer, or why there is none
       ▲                                                    │
       └────────── once more, with a reminder ◄─────────────┘ at most `attempts` times
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

from rollwright.record import GradingError, Message
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.judging.client import JudgeClient, JudgeUnavailableError

__all__ = ["Answered", "AskLimits", "Asker", "Tally", "Unanswered"]

Found = TypeVar("Found")
_REMINDER = "\n\nKeep exactly to that form; a reply in any other form is thrown away. (Try {} of {}.)"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskLimits:
    """How long a judge is asked before the question is given up."""

    attempts: int = 3
    """Tries in all, unreadable replies and failures together."""
    timeout_s: float = 60.0
    """Of one try."""
    concurrency: int = 16
    """Questions in flight at once."""

    def __post_init__(self) -> None:
        """Refuse limits under which nothing is asked."""
        if self.attempts < 1 or self.concurrency < 1 or self.timeout_s <= 0:
            raise VerifierSetupError(
                f"attempts={self.attempts}, concurrency={self.concurrency}, timeout_s={self.timeout_s:g}; needed are "
                "at least 1, at least 1 and more than 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[Found]):
    """A reply that could be read."""

    found: Found
    text: str
    """The whole reply: the judge's rationale."""
    calls: int
    cost: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unanswered:
    """Why there is none; what it cost all the same."""

    cause: GradingError
    text: str
    """The last reply, or what went wrong."""
    calls: int
    cost: float | None


@dataclass(slots=True, kw_only=True)
class Tally:
    """What asking came to, so far."""

    questions: int = 0
    calls: int = 0
    unreadable: int = 0
    """Replies without a verdict of the judge's own; each was asked again or given up."""
    failures: int = 0
    """Tries that ended without a reply."""
    given_up: int = 0
    """Questions without an answer: left out of every mean."""
    cost: float = 0.0
    """Of the calls whose cost is known."""


class Asker:
    """A judge behind its limits; shared by all verifiers that ask the same judge."""

    def __init__(self, client: JudgeClient, limits: AskLimits | None = None) -> None:
        """Store both; nothing is asked yet."""
        self._client = client
        self._limits = limits or AskLimits()
        self._tally = Tally()
        # A semaphore belongs to the loop that first waits on it, and a run may score in several loops.
        self._places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def client(self) -> JudgeClient:
        """Whoever is asked."""
        return self._client

    @property
    def revision(self) -> str:
        """Of the judge."""
        return self._client.revision

    @property
    def limits(self) -> AskLimits:
        """As given."""
        return self._limits

    @property
    def tally(self) -> Tally:
        """Counts since it was made."""
        return self._tally

    async def ask(
        self, messages: Sequence[Message], read: Callable[[str], Found | None]
    ) -> Answered[Found] | Unanswered:
        """Ask until a reply can be read.

        Args:
            messages: the conversation; the last is the user's.
            read: gives None for a reply that breaks the protocol.

        Returns:
            What was read, or the cause: `unparsable_judge`, `timeout` or `infrastructure`, that of the last try.
        """
        self._tally.questions += 1
        costs: list[float] = []
        cause: GradingError = "infrastructure"
        said = ""
        for attempt in range(1, self._limits.attempts + 1):
            self._tally.calls += 1
            try:
                async with self._place(), asyncio.timeout(self._limits.timeout_s):
                    reply = await self._client.complete(_reminded(messages, attempt, self._limits.attempts))
            except TimeoutError:
                cause, said = "timeout", f"no reply within {self._limits.timeout_s:g} seconds"
                self._tally.failures += 1
                continue
            except JudgeUnavailableError as error:
                cause, said = "infrastructure", str(error)
                self._tally.failures += 1
                continue
            if reply.cost is not None:
                costs.append(reply.cost)
                self._tally.cost += reply.cost
            found = read(reply.text)
            if found is not None:
                return Answered(found=found, text=reply.text, calls=attempt, cost=_total(costs))
            self._tally.unreadable += 1
            cause, said = "unparsable_judge", reply.text
        self._tally.given_up += 1
        return Unanswered(cause=cause, text=said, calls=self._limits.attempts, cost=_total(costs))

    def _place(self) -> asyncio.Semaphore:
        return self._places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._limits.concurrency))


def _reminded(messages: Sequence[Message], attempt: int, attempts: int) -> Sequence[Message]:
    if attempt == 1:
        return messages
    last = messages[-1]
    return (*messages[:-1], Message(role=last.role, text=last.text + _REMINDER.format(attempt, attempts)))


def _total(costs: Sequence[float]) -> float | None:
    return sum(costs) if costs else None
