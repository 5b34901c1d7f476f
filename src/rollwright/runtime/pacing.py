"""How many episodes run at once, by what the engine can hold: a few more while it has room, fewer where it is pressed.

    attempt ──► Pace: a place? ──► episode ──► GaugedEngine ──► engine
                  ▲                                │ more turns asked, or more contexts open, than it has slots?
                  └── whenever as many have ended as may run: a quarter fewer where that was seen, else some more

An episode of several contexts, of sub-agents or of a context that was begun anew, holds several slots at once, so that
a number of episodes that fits at first may not fit later.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from rollwright.engines.passing import AskedEngine, PassingEngine, closing
from rollwright.record import Chunk, Engine, GenerationRequest, Swap, WeightsManifest
from rollwright.runtime.errors import RuntimeRunError
from rollwright.runtime.parts import Attempt

__all__ = ["GaugedEngine", "Pace", "PaceRule"]

_Ended = TypeVar("_Ended")
_Given = TypeVar("_Given")
_STEP = 4
"""The limit moves by its fourth part, by one at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaceRule:
    """Between what the number of episodes moves."""

    least: int
    most: int

    def __post_init__(self) -> None:
        """Refuse limits that let nothing run."""
        if not 1 <= self.least <= self.most:
            raise RuntimeRunError(
                f"episodes are to run at once from {self.least} to {self.most}; the first is at least 1 and at most "
                "the second."
            )


class GaugedEngine(PassingEngine):
    """An `Engine` that knows how many turns are asked of it and how many contexts are open."""

    def __init__(self, engine: Engine) -> None:
        """Pass on to `engine`."""
        super().__init__(engine)
        self._requests = 0
        self._sessions: set[str] = set()
        self._was_pressed = False

    @property
    def is_pressed(self) -> bool:
        """More turns are asked for, or more contexts are open, than the engine has slots."""
        return max(self._requests, len(self._sessions)) > self.capabilities.num_slots

    def take_pressure(self) -> bool:
        """Whether it was pressed at any time since this was asked last."""
        was_pressed, self._was_pressed = self._was_pressed, self.is_pressed
        return was_pressed

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn."""
        return self._counted(request)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve other weights."""
        await self._engine.load_weights(weights, swap)

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        match asked.kind:
            case "release":
                self._sessions.discard(asked.name)
            case "close":
                self._sessions.clear()
            case _:
                pass
        return await answer()

    async def _counted(self, request: GenerationRequest) -> AsyncGenerator[Chunk]:
        self._requests += 1
        self._sessions.add(request.session)
        self._was_pressed = self._was_pressed or self.is_pressed
        try:
            async with closing(self._engine.generate(request)) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            self._requests -= 1


class Pace:
    """Lets so many episodes run at once as the engine was seen to hold; the others wait in order of asking."""

    def __init__(self, rule: PaceRule, gauge: GaugedEngine) -> None:
        """Begin with the most."""
        self._rule = rule
        self._gauge = gauge
        self._limit = rule.most
        self._running = 0
        self._ended = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """Episodes that may run at once now."""
        return self._limit

    @property
    def running(self) -> int:
        """Episodes that do."""
        return self._running

    def over(
        self, run_episode: Callable[[Attempt], Awaitable[_Ended]]
    ) -> Callable[[Attempt], Coroutine[Any, Any, _Ended]]:
        """The same, each attempt in a place of its own.

        Args:
            run_episode: what the dispatcher calls.
        """

        async def run(attempt: Attempt) -> _Ended:
            await self._enter()
            try:
                return await run_episode(attempt)
            finally:
                self._leave()

        return run

    async def _enter(self) -> None:
        if self._running < self._limit and not self._waiting:
            self._running += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._running -= 1
                self._let_in()
            raise

    def _leave(self) -> None:
        self._running -= 1
        self._ended += 1
        if self._ended >= self._limit:  # Before that, those that were let in under the last limit speak.
            step = max(1, self._limit // _STEP)
            moved = self._limit - step if self._gauge.take_pressure() else self._limit + step
            self._limit, self._ended = max(self._rule.least, min(self._rule.most, moved)), 0
        self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self._running < self._limit:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                self._running += 1
