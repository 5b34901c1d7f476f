"""An engine that is made again when it dies, hangs, or keeps old weights.

    request ──► the engine that serves ──chunk──► checked: its version is at least the one loaded ──► caller
                     │ lost, silent too long, or stale
                     └► its requests end with EngineLostError (the dispatcher retries them)
                        the next caller: wait (backoff) ──► open ──► load the newest published weights ──► serves

Callers wait for the engine that serves; one of them, under a lock, makes the new one. Each wait for the engine behind
ends with a chunk or an answer, or when nothing at all has come from it for `silent_s`. An engine that hangs is left
behind: nobody can end a thread that does not listen.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from rollwright.record import (
    Capabilities,
    Chunk,
    Engine,
    EngineLostError,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
)
from rollwright.runtime.watchdog import Watchdog

__all__ = ["FaultFn", "OpenEngineFn", "RestartRules", "RestartingEngine"]

OpenEngineFn = Callable[[int], Engine]
"""Opens an engine for a policy version; called in a thread. What it serves at first is never asked for: the last
published weights are loaded before the first request."""

FaultFn = Callable[[Engine, int], Awaitable[str | None]]
"""What is wrong with an engine that should serve a version, in a sentence; None where nothing is."""

T = TypeVar("T")
_COMPONENT = "engine"
_CLOSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRules:
    """When an engine is given up, and how often another is made."""

    silent_s: float = 300.0
    """Without any chunk or answer while something is asked of it, after which it counts as hung."""
    first_wait_s: float = 0.5
    """Before the second restart in a row; the first is made at once."""
    factor: float = 2.0
    longest_wait_s: float = 60.0
    weights_wait_s: float = 600.0
    """How long another engine waits for the next publication where the last one can no longer be read."""
    in_a_row: int = 5
    """Restarts without a finished turn between them, after which the run is told that there is no engine."""

    def __post_init__(self) -> None:
        """Refuse what never waits or never ends."""
        if not self.silent_s > 0 or self.first_wait_s < 0 or self.factor < 1 or self.in_a_row < 1:
            raise ValueError(f"{self}: silent_s is above 0, first_wait_s not below 0, factor and in_a_row at least 1.")

    def wait_s(self, restarts: int) -> float:
        """Before the next restart, after so many in a row."""
        return 0.0 if restarts == 0 else min(self.longest_wait_s, self.first_wait_s * self.factor ** (restarts - 1))


@dataclass(slots=True, kw_only=True, eq=False)
class _Life:
    engine: Engine
    version: int
    """Loaded last; 0 or what it was opened with before that."""
    cause: str | None = None
    """Why it is over; None while it serves."""
    is_silent: bool = False
    loaded: WeightsManifest | None = None
    waits: set[asyncio.Timeout] = field(default_factory=set[asyncio.Timeout])
    """Of all who wait for it; they are ended together."""
    sign_s: float = 0.0
    """When something came from it or was asked of it last, by the loop's clock."""
    alarm: asyncio.TimerHandle | None = None
    """The one timer of all its waits; None while nothing is waited for."""

    def end_waits(self) -> None:
        """Nobody waits for it any longer."""
        now = asyncio.get_running_loop().time()
        for timeout in self.waits:
            if not timeout.expired():
                timeout.reschedule(now)

    def took(self, weights: WeightsManifest) -> None:
        """It serves these now."""
        self.version, self.loaded = weights.version, weights


class RestartingEngine:
    """One engine after another behind one face."""

    def __init__(
        self, engine: Engine, reopen: OpenEngineFn, rules: RestartRules, watchdog: Watchdog, *, version: int = 0
    ) -> None:
        """Serve by `engine` as long as it lives.

        Args:
            engine: the first; `close` closes whichever serves.
            reopen: makes another.
            rules: when.
            watchdog: hears of waits, failures and restarts.
            version: that the first engine was opened with.
        """
        self._life = _Life(engine=engine, version=version)
        self._reopen = reopen
        self._rules = rules
        self._watchdog = watchdog
        self._weights: WeightsManifest | None = None
        self._wanted: WeightsManifest | None = None
        self._asked = asyncio.Event()
        self._in_a_row = 0
        self._is_paused = False
        self._making = asyncio.Lock()
        self._spare: asyncio.Future[Engine] | None = None
        self._fault_of: FaultFn | None = None

    @property
    def capabilities(self) -> Capabilities:
        """Those of the engine that serves."""
        return self._life.engine.capabilities

    def try_each(self, fault_of: FaultFn) -> None:
        """Ask of each engine that is made again what is wrong with it, once it has the weights and before it serves."""
        self._fault_of = fault_of

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Pass a request on to the engine that serves when its first chunk is asked for."""
        return self._chunks(request)

    async def score(self, request: ScoreRequest) -> Scores:
        """Pass on; one that is lost over it is made again and asked once more.

        Raises:
            EngineLostError: when no engine can be made.
        """
        while True:
            life = await self._serving()
            with self._watchdog.waiting(_COMPONENT, "scores"), contextlib.suppress(EngineLostError):
                return await self._answer(life, life.engine.score(request))

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Load into the engine that serves; one that is lost over it is made again and asked once more.

        Raises:
            EngineLostError: when no engine can be made.
        """
        self._wanted = weights
        self._asked.set()
        try:
            life = await self._serving()
            while life.loaded is not weights:
                with self._watchdog.waiting(_COMPONENT, f"weights of version {weights.version}"):
                    try:
                        await self._answer(life, life.engine.load_weights(weights, swap))
                        life.took(weights)
                    except EngineLostError:
                        life = await self._serving()
            self._weights = weights
        finally:
            self._wanted = None
            self._asked.clear()

    async def cancel(self, request_id: str) -> None:
        """Pass on; a request of a lost engine has ended."""
        await self._tell(lambda engine: engine.cancel(request_id))

    async def release(self, session: str) -> None:
        """Pass on; the sessions of a lost engine went with it."""
        await self._tell(lambda engine: engine.release(session))

    async def pause(self) -> None:
        """Pass on; a paused engine is silent by order."""
        self._is_paused = True
        await self._tell(lambda engine: engine.pause())

    async def resume(self) -> None:
        """Pass on."""
        self._is_paused = False
        await self._tell(lambda engine: engine.resume())

    async def close(self) -> None:
        """Close the engine that serves, and one that was opened for nobody; one that hangs is left behind."""
        if self._spare is not None:
            await (await self._spare).close()
        if not self._life.is_silent:
            await self._life.engine.close()

    async def _chunks(self, request: GenerationRequest) -> AsyncGenerator[Chunk]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + request.deadline_s
        life = await self._serving()
        due = life.version
        asked = replace(request, deadline_s=max(deadline - loop.time(), 0.001))
        with self._watchdog.waiting(_COMPONENT, f"turn {request.request_id}") as wait:
            stream = life.engine.generate(asked)
            try:
                while True:
                    try:
                        chunk = await self._answer(life, anext(stream))
                    except StopAsyncIteration:
                        return
                    self._check_version(life, chunk, due)
                    wait.beat()
                    if chunk.finish is not None and chunk.finish != "aborted":
                        self._in_a_row = 0
                    yield chunk
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()

    def _check_version(self, life: _Life, chunk: Chunk, due: int) -> None:
        """What was loaded before a request serves all of it."""
        if len(chunk.token_ids) and chunk.policy_version < due:
            self._end(life, f"it draws from version {chunk.policy_version} where {due} was loaded before the request")
            raise EngineLostError(life.cause)

    async def _tell(self, call: Callable[[Engine], Awaitable[None]]) -> None:
        life = self._life
        if life.cause is None:
            await self._answer(life, call(life.engine))

    async def _answer(self, life: _Life, answer: Awaitable[T]) -> T:
        """Wait for an engine as long as anything comes from it."""
        timeout = asyncio.timeout(None)
        try:
            async with timeout:
                life.waits.add(timeout)
                self._saw_sign(life)
                try:
                    given = await answer
                finally:
                    life.waits.discard(timeout)
        except TimeoutError as error:
            if not timeout.expired():
                raise
            if life.cause is None:
                life.is_silent = True
                self._end(life, f"no sign of it for {self._rules.silent_s:g} s, though something was asked of it")
            raise EngineLostError(life.cause) from error
        except EngineLostError as error:
            self._end(life, str(error))
            raise
        self._saw_sign(life)
        return given

    def _saw_sign(self, life: _Life) -> None:
        """Count the silence from now on, for all who wait; a life that is over is waited for no longer."""
        loop = asyncio.get_running_loop()
        life.sign_s = loop.time()
        if life.cause is not None:
            life.end_waits()
        elif life.alarm is None and life.waits and not self._is_paused:
            life.alarm = loop.call_at(life.sign_s + self._rules.silent_s, self._look, life)

    def _look(self, life: _Life) -> None:
        """The alarm of a life rings: end its waits where it was silent, or set it anew."""
        life.alarm = None
        if not life.waits or self._is_paused or life.cause is not None:
            return
        loop = asyncio.get_running_loop()
        until = life.sign_s + self._rules.silent_s
        if until > loop.time():
            life.alarm = loop.call_at(until, self._look, life)
        else:
            life.end_waits()

    def _end(self, life: _Life, cause: str) -> None:
        """From here on another engine serves."""
        if life.cause is None:
            life.cause = cause
            self._watchdog.failed(_COMPONENT, cause)
            life.end_waits()

    async def _serving(self) -> _Life:
        """The engine that serves; made again where it is over.

        Raises:
            EngineLostError: when too many died one after the other.
        """
        life = self._life
        if life.cause is None:
            return life
        async with self._making:
            life = self._life
            while (cause := life.cause) is not None:
                await self._make(life, cause)
                life = self._life
            return life

    async def _make(self, old: _Life, cause: str) -> None:
        if self._in_a_row >= self._rules.in_a_row:
            sentence = f"{self._in_a_row} engines in a row were lost without a finished turn; the last: {cause}"
            self._watchdog.give_up(_COMPONENT, sentence)
            raise EngineLostError(sentence)
        with self._watchdog.waiting(_COMPONENT, "another engine"):
            await asyncio.sleep(self._rules.wait_s(self._in_a_row))
            self._in_a_row += 1
            if not old.is_silent:
                await self._close(old)
            try:
                engine = await self._opened()
            except Exception as error:  # noqa: BLE001 - whatever stands in the way of an engine is a cause, kept and tried again
                old.cause = f"another engine could not be opened: {type(error).__name__}: {error}"
                self._watchdog.failed(_COMPONENT, old.cause)
                return
        life = _Life(engine=engine, version=old.version)
        if not await self._is_ready(life):
            old.cause = life.cause
            if not life.is_silent:
                await self._close(life)
            return
        self._life = life
        self._watchdog.restarted(_COMPONENT, cause)

    async def _is_ready(self, life: _Life) -> bool:
        """Give a new engine the newest weights, before anyone sees it.

        Where no copy is kept, a learner that has moved on has no longer what was published last; then the next
        publication is waited for.
        """
        until = asyncio.get_running_loop().time() + self._rules.weights_wait_s
        try:
            while (weights := self._wanted or self._weights) is not None and life.loaded is not weights:
                try:
                    await self._answer(life, life.engine.load_weights(weights, "drain"))
                    life.took(weights)
                except EngineLostError:
                    raise
                except Exception as error:  # noqa: BLE001 - an engine without the weights must not serve
                    if weights is self._wanted or not await self._is_asked_before(until):
                        self._end(life, f"another engine did not take the weights: {type(error).__name__}: {error}")
                        return False
            if self._fault_of is not None and life.loaded is not None:
                fault = await self._answer(life, self._fault_of(life.engine, life.version))
                if fault is not None:
                    self._end(life, f"another engine serves other weights than it was given: {fault}")
                    return False
            if self._is_paused:
                await self._answer(life, life.engine.pause())
        except EngineLostError:
            return False
        return True

    async def _is_asked_before(self, until: float) -> bool:
        """Wait for the next publication."""
        with self._watchdog.waiting("learner", "weights for another engine"):
            try:
                async with asyncio.timeout_at(until):
                    await self._asked.wait()
            except TimeoutError:
                return False
        return True

    async def _close(self, old: _Life) -> None:
        try:
            async with asyncio.timeout(_CLOSE_S):
                await old.engine.close()
        except Exception as error:  # noqa: BLE001 - it is lost already; what it says at its end changes nothing
            self._watchdog.failed(_COMPONENT, f"a lost engine did not close: {type(error).__name__}: {error}")

    async def _opened(self) -> Engine:
        """Opened in a thread; one whose caller left meanwhile is taken by the next."""
        if self._spare is None:
            self._spare = asyncio.get_running_loop().run_in_executor(None, self._reopen, self._life.version)
        spare = self._spare
        try:
            engine = await asyncio.shield(spare)
        except Exception:
            self._spare = None
            raise
        self._spare = None
        return engine
