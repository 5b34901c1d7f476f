"""Stands between an engine and its caller and keeps every chunk that passed, to be compared with what was stored."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

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

__all__ = ["RecordedChunk", "RecordingEngine"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RecordedChunk:
    """A chunk with the request that it answers."""

    request: GenerationRequest
    chunk: Chunk


class RecordingEngine:
    """Passes everything on unchanged; `chunks` is what came back, in order of arrival."""

    def __init__(self, engine: Engine) -> None:
        """Store the engine to be watched."""
        self._engine = engine
        self.chunks: list[RecordedChunk] = []

    @property
    def capabilities(self) -> Capabilities:
        """Those of the engine behind."""
        return self._engine.capabilities

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Pass a request on and keep what comes back."""
        return self._watch(request, self._engine.generate(request))

    async def score(self, request: ScoreRequest) -> Scores:
        """Pass on."""
        return await self._engine.score(request)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Pass on."""
        await self._engine.load_weights(weights, swap)

    async def cancel(self, request_id: str) -> None:
        """Pass on."""
        await self._engine.cancel(request_id)

    async def release(self, session: str) -> None:
        """Pass on."""
        await self._engine.release(session)

    async def pause(self) -> None:
        """Pass on."""
        await self._engine.pause()

    async def resume(self) -> None:
        """Pass on."""
        await self._engine.resume()

    async def close(self) -> None:
        """Pass on."""
        await self._engine.close()

    async def _watch(self, request: GenerationRequest, chunks: AsyncIterator[Chunk]) -> AsyncIterator[Chunk]:
        async for chunk in chunks:
            self.chunks.append(RecordedChunk(request=request, chunk=chunk))
            yield chunk
