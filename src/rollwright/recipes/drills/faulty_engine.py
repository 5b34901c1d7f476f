"""The real engine with a fault between it and the driver."""

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from rollwright.engines.passing import AskedEngine, PassingEngine, closing
from rollwright.recipes.drills.kinds import EngineFault
from rollwright.recipes.drills.strikes import Strikes
from rollwright.record import Chunk, Engine, EngineLostError, GenerationRequest, Swap, WeightsManifest

__all__ = ["FaultyEngine"]

_Given = TypeVar("_Given")


class FaultyEngine(PassingEngine):
    """Passes everything on until the fault strikes: at a chunk of a training episode, or at a publication."""

    def __init__(self, engine: Engine, fault: EngineFault, strikes: Strikes) -> None:
        """Stand before `engine`."""
        super().__init__(engine)
        self._fault = fault
        self._strikes = strikes
        self._is_hung = False

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Pass a request on; what comes back may be struck."""
        return self._chunks(request)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Pass a publication on, unless it is the one that is struck."""
        await self._unless_hung()
        faults = ("dies_loading", "half_written", "keeps_old_weights")
        if self._fault not in faults or not self._strikes.hit():
            return await self._engine.load_weights(weights, swap)
        if self._fault == "keeps_old_weights":
            return None
        if self._fault == "dies_loading":
            await self._engine.close()
            raise EngineLostError("its thread ended while it took new weights")
        last = replace(weights.tensors[-1], sha256="0" * 64)
        return await self._engine.load_weights(replace(weights, tensors=(*weights.tensors[:-1], last)), swap)

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        if asked.kind != "close":
            await self._unless_hung()
        return await answer()

    async def _chunks(self, request: GenerationRequest) -> AsyncGenerator[Chunk]:
        await self._unless_hung()
        async with closing(self._engine.generate(request)) as chunks:
            async for chunk in chunks:
                if request.session.startswith("t") and self._is_struck(chunk):
                    if self._fault == "loses_the_end_of_a_turn":
                        return
                    await self._strike()
                yield chunk

    def _is_struck(self, chunk: Chunk) -> bool:
        match self._fault:
            case "dies" | "hangs" | "kills_the_run":
                return self._strikes.hit()
            case "loses_the_end_of_a_turn":
                return chunk.finish is not None and self._strikes.hit()
            case _:
                return False

    async def _strike(self) -> None:
        match self._fault:
            case "kills_the_run":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hangs":
                self._is_hung = True
                await self._unless_hung()
            case _:
                await self._engine.close()
                raise EngineLostError("its thread ended in mid-turn")

    async def _unless_hung(self) -> None:
        if self._is_hung:
            await asyncio.Event().wait()
