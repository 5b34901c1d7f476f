"""Engine and environment that tell the time book when they are at work; they pass everything on as it is."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TypeVar

from rollwright.engines.passing import AskedEngine, PassingEngine, closing
from rollwright.environments.passing import Asked, PassingEnvironment, PassingEpisode
from rollwright.record import (
    Chunk,
    Engine,
    Environment,
    Episode,
    GenerationRequest,
    Swap,
    Task,
    WeightsManifest,
)
from rollwright.runtime.timebook import TimeBook

__all__ = ["MeteredEngine", "MeteredEnvironment"]

_Given = TypeVar("_Given")


class MeteredEngine(PassingEngine):
    """An `Engine`: busy while a request is open, syncing while weights are loaded."""

    def __init__(self, engine: Engine, book: TimeBook) -> None:
        """Pass on to `engine`."""
        super().__init__(engine)
        self._book = book

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn."""
        return self._counted(self._engine.generate(request))

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve other weights."""
        with self._book.doing("engine", "syncing"):
            await self._engine.load_weights(weights, swap)

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        if asked.kind != "score":
            return await answer()
        with self._book.doing("engine"):
            return await answer()

    async def _counted(self, stream: AsyncIterator[Chunk]) -> AsyncGenerator[Chunk]:
        with self._book.doing("engine"):
            async with closing(stream) as chunks:
                async for chunk in chunks:
                    yield chunk


class MeteredEnvironment(PassingEnvironment):
    """An `Environment`: busy while an episode begins, answers a call, takes a turn or leaves its artifacts."""

    def __init__(self, environment: Environment, book: TimeBook) -> None:
        """Pass on to `environment`."""
        super().__init__(environment)
        self._book = book

    def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AbstractAsyncContextManager[Episode]:
        """An episode whose work is counted."""
        return _MeteredStay(self._behind(task, seed, snapshot), self._book)


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


class _MeteredEpisode(PassingEpisode):
    def __init__(self, episode: Episode, book: TimeBook) -> None:
        super().__init__(episode)
        self._book = book

    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        with self._book.doing("environment"):
            return await answer()
