"""Stands between an engine and its caller and keeps every chunk that passed, to be compared with what was stored."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rollwright.engines.passing import AskedEngine, PassingEngine
from rollwright.record import Chunk, Engine, GenerationRequest, Swap, WeightsManifest

__all__ = ["RecordedChunk", "RecordingEngine"]

_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedChunk:
    """A chunk with the request that it answers."""

    request: GenerationRequest
    chunk: Chunk


class RecordingEngine(PassingEngine):
    """Passes everything on unchanged; `chunks` is what came back, in order of arrival."""

    def __init__(self, engine: Engine) -> None:
        """Store the engine to be watched."""
        super().__init__(engine)
        self.chunks: list[RecordedChunk] = []

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Pass a request on and keep what comes back."""
        return self._watch(request, self._engine.generate(request))

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Pass on."""
        await self._engine.load_weights(weights, swap)

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        return await answer()

    async def _watch(self, request: GenerationRequest, chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            self.chunks.append(RecordedChunk(request=request, chunk=chunk))
            yield chunk
