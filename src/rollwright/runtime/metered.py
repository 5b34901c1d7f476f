"""Engine and environment that tell the time book when they are at work; they pass everything on as it is."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType

from rollwright.record import (
    Action,
    Capabilities,
    Chunk,
    Engine,
    Environment,
    Episode,
    GenerationRequest,
    ScoreRequest,
    Scores,
    StepResult,
    Swap,
    Task,
    ToolRequest,
    ToolResult,
    WeightsManifest,
)
from rollwright.runtime.timebook import TimeBook

__all__ = ["MeteredEngine", "MeteredEnvironment"]


class MeteredEngine:
    """An `Engine`: busy while a request is open, syncing while weights are loaded."""

    def __init__(self, inner: Engine, book: TimeBook) -> None:
        """Pass on to `inner`."""
        self._inner = inner
        self._book = book

    @property
    def capabilities(self) -> Capabilities:
        """Of the engine."""
        return self._inner.capabilities

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn."""
        return self._counted(self._inner.generate(request))

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens."""
        with self._book.doing("engine"):
            return await self._inner.score(request)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve other weights."""
        with self._book.doing("engine", "syncing"):
            await self._inner.load_weights(weights, swap)

    async def cancel(self, request_id: str) -> None:
        """End a request."""
        await self._inner.cancel(request_id)

    async def release(self, session: str) -> None:
        """Forget a session."""
        await self._inner.release(session)

    async def pause(self) -> None:
        """Draw nothing until `resume`."""
        await self._inner.pause()

    async def resume(self) -> None:
        """Go on."""
        await self._inner.resume()

    async def close(self) -> None:
        """End all requests."""
        await self._inner.close()

    async def _counted(self, stream: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk]:
        with self._book.doing("engine"):
            try:
                async for chunk in stream:
                    yield chunk
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()


@dataclass(frozen=True, slots=True)
class MeteredEnvironment:
    """An `Environment`: busy while an episode begins, answers a call, takes a turn or leaves its artifacts."""

    inner: Environment
    book: TimeBook

    @property
    def name(self) -> str:
        """Of the environment."""
        return self.inner.name

    @property
    def revision(self) -> str:
        """Of the environment."""
        return self.inner.revision

    @property
    def actors(self) -> Mapping[str, str]:
        """Of the environment."""
        return self.inner.actors

    def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AbstractAsyncContextManager[Episode]:
        """An episode whose work is counted."""
        if snapshot is None:
            return _MeteredStay(self.inner.open(task, seed=seed), self.book)
        return _MeteredStay(self.inner.open(task, seed=seed, snapshot=snapshot), self.book)


class _MeteredStay:
    def __init__(self, inner: AbstractAsyncContextManager[Episode], book: TimeBook) -> None:
        self._inner = inner
        self._book = book

    async def __aenter__(self) -> Episode:
        with self._book.doing("environment"):
            return _MeteredEpisode(await self._inner.__aenter__(), self._book)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        with self._book.doing("environment"):
            return await self._inner.__aexit__(kind, error, trace)


@dataclass(frozen=True, slots=True)
class _MeteredEpisode:
    inner: Episode
    book: TimeBook

    @property
    def tools(self) -> Mapping[str, str]:
        return self.inner.tools

    async def begin(self) -> StepResult:
        with self.book.doing("environment"):
            return await self.inner.begin()

    async def call(self, request: ToolRequest) -> ToolResult:
        with self.book.doing("environment"):
            return await self.inner.call(request)

    async def step(self, action: Action) -> StepResult:
        with self.book.doing("environment"):
            return await self.inner.step(action)

    async def artifacts(self) -> Mapping[str, bytes]:
        with self.book.doing("environment"):
            return await self.inner.artifacts()

    async def snapshot(self) -> bytes:
        with self.book.doing("environment"):
            return await self.inner.snapshot()
