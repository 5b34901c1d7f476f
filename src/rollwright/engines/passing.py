"""What engines share that stand before another one: they are that one in all but how its tokens are drawn."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeVar

from rollwright.record import (
    Capabilities,
    Chunk,
    Engine,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
)

__all__ = ["AskedEngine", "PassingEngine", "closing"]

_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedEngine:
    """What an engine is asked for, tokens and the loading of weights apart."""

    kind: Literal["score", "cancel", "release", "pause", "resume", "close"]
    name: str = ""
    """Of the request to cancel or the session to release."""


class PassingEngine(ABC):
    """An engine before another: it can do what that one can, and what it is asked goes to it."""

    def __init__(self, engine: Engine) -> None:
        """Stand before `engine`."""
        self._engine = engine

    @property
    def capabilities(self) -> Capabilities:
        """Of the engine behind."""
        return self._engine.capabilities

    @abstractmethod
    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Have the engine behind draw one turn."""

    @abstractmethod
    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Have the engine behind serve new weights."""

    async def score(self, request: ScoreRequest) -> Scores:
        """Of the engine behind."""
        return await self._through(AskedEngine(kind="score"), lambda: self._engine.score(request))

    async def cancel(self, request_id: str) -> None:
        """End a request of the engine behind."""
        asked = AskedEngine(kind="cancel", name=request_id)
        await self._through(asked, lambda: self._engine.cancel(request_id))

    async def release(self, session: str) -> None:
        """Have the engine behind forget a session."""
        asked = AskedEngine(kind="release", name=session)
        await self._through(asked, lambda: self._engine.release(session))

    async def pause(self) -> None:
        """Have the engine behind draw nothing until `resume`."""
        await self._through(AskedEngine(kind="pause"), self._engine.pause)

    async def resume(self) -> None:
        """Have the engine behind go on."""
        await self._through(AskedEngine(kind="resume"), self._engine.resume)

    async def close(self) -> None:
        """Close the engine behind."""
        await self._through(AskedEngine(kind="close"), self._engine.close)

    @abstractmethod
    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        """Have the engine behind answer, once.

        Args:
            asked: what for.
            answer: asks it.
        """


@asynccontextmanager
async def closing(chunks: AsyncIterator[Chunk]) -> AsyncGenerator[AsyncIterator[Chunk]]:
    """The chunks of a request, ended where the caller stops asking for more.

    Args:
        chunks: of the engine behind.
    """
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()
