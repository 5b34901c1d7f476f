"""One request with its turns, while they are drawn and when they are done."""

import asyncio
from dataclasses import dataclass, field

from rollwright.record import Chunk, TerminalReason
from rollwright.rollout.gateway.asked import Answer, Ask
from rollwright.rollout.gateway.errors import ApiError
from rollwright.rollout.gateway.history import Prompt, Taken
from rollwright.rollout.gateway.telling import Teller

__all__ = ["Drawing", "Exchange"]


@dataclass(slots=True, kw_only=True, eq=False)
class Drawing:
    """One turn of an exchange, in flight or done."""

    prompt: Prompt
    number: int
    """Of its context."""
    teller: Teller
    max_tokens: int
    bound: TerminalReason | None
    """What it is cut by; None: by what the agent asked for, or by a limit that is no end."""
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    taken: Taken | None = None
    """Once it is written."""
    answer: Answer | None = None
    refusal: ApiError | None = None

    @property
    def num_drawn(self) -> int:
        """Tokens so far."""
        return sum(len(chunk.token_ids) for chunk in self.chunks)

    @property
    def is_done(self) -> bool:
        """True once it has an answer, or has none to come."""
        return self.answer is not None or self.refusal is not None


@dataclass(slots=True, kw_only=True, eq=False)
class Exchange:
    """One request and its turns."""

    ask: Ask
    name: str
    """Unique in the run: `<trajectory_id>-<number>`."""
    number: int
    created: int
    """Seconds since 1970."""
    num_prompt_tokens: int
    drawings: tuple[Drawing, ...]
    tasks: tuple[asyncio.Task[None], ...] = ()
    news: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever a turn has gone on or is done."""

    @property
    def is_done(self) -> bool:
        """True once no turn is in flight."""
        return all(drawing.is_done for drawing in self.drawings)

    def answers(self) -> tuple[Answer, ...]:
        """Of all turns.

        Raises:
            ApiError: where one has none.
        """
        for drawing in self.drawings:
            if drawing.refusal is not None:
                raise drawing.refusal
        return tuple(drawing.answer for drawing in self.drawings if drawing.answer is not None)

    def abandon(self) -> None:
        """Nobody waits for what is in flight."""
        for task in self.tasks:
            task.cancel()
