"""A circuit breaker for something outside that keeps failing: a verifier's server, an environment's, a judge.

    closed ──failures in a row──► open ──its time is over──► half open ──a trial succeeds──► closed
                                   ▲                            │
                                   └───────── it fails ─────────┘   (the time grows)

While it is open nothing that needs it starts: `passage` waits, and what waits holds its place, so that admission stops
by itself. In the half-open state a few trials pass and the others wait for how they end. A failure is never a score:
the breaker only decides when to ask again. Those who wait are woken by a trial's end or by the clock, looked at every
`look_s`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

from rollwright.rollout import Clock

__all__ = ["Breaker", "BreakerRules", "BreakerState", "DependencyDownError", "Passage"]

BreakerState = Literal["closed", "open", "half_open"]


class DependencyDownError(Exception):
    """What is needed has been down for longer than anyone waits; no score, no answer: a failure of the surroundings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """When a dependency counts as down, and when it is asked again."""

    failures: int = 5
    """In a row, after which nothing more is asked."""
    open_s: float = 10.0
    """Until the first trial."""
    factor: float = 2.0
    """By which the time grows with each failed trial."""
    longest_open_s: float = 300.0
    trials: int = 1
    """That may run at once in the half-open state."""
    patience_s: float = 3600.0
    """How long one caller waits for its passage."""
    look_s: float = 0.5

    def __post_init__(self) -> None:
        """Refuse a breaker that never opens or never closes."""
        if self.failures < 1 or self.trials < 1 or self.factor < 1 or not 0 < self.open_s <= self.longest_open_s:
            raise ValueError(
                f"{self}: failures, trials and factor are at least 1; open_s is above 0 and at most longest_open_s."
            )

    def pause_s(self, openings: int) -> float:
        """Until the next trial, after so many openings in a row (from 1)."""
        return min(self.longest_open_s, self.open_s * self.factor ** (openings - 1))


class Passage:
    """Leave to ask a dependency once; say how it went. Without a word it counts for nothing."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.cause: str | None = None
        self.has_succeeded = False

    def succeeded(self) -> None:
        """It answered."""
        self.cause, self.has_succeeded = None, True

    def failed(self, cause: str) -> None:
        """It did not, by its own fault."""
        self.cause, self.has_succeeded = cause, False


class Breaker:
    """Of one dependency. Used from the event loop's thread."""

    def __init__(self, name: str, rules: BreakerRules, clock: Clock, tell: Callable[[str], None]) -> None:
        """Start closed.

        Args:
            name: of the dependency, for sentences.
            rules: by count and clock.
            clock: for durations.
            tell: shows a sentence to a person.
        """
        self.name = name
        self._rules = rules
        self._clock = clock
        self._tell = tell
        self._failures = 0
        self._openings = 0
        self._open_until: float | None = None
        self._opened_at = 0.0
        self._cause = ""
        self._trials = 0
        self._waiting = 0
        self._changed = asyncio.Event()

    @property
    def state(self) -> BreakerState:
        """As the clock stands."""
        if self._open_until is None:
            return "closed"
        return "open" if self._clock.monotonic() < self._open_until else "half_open"

    @property
    def is_admitting(self) -> bool:
        """True where something that needs it may start."""
        return self.state == "closed"

    @property
    def num_waiting(self) -> int:
        """Callers that are held back."""
        return self._waiting

    def explain(self) -> str:
        """One sentence for a diagnosis; empty while it is closed."""
        if self.state == "closed":
            return ""
        since_s = self._clock.monotonic() - self._opened_at
        return (
            f"{self.name} is down since {since_s:.0f} s ({self._cause}), {self._waiting} calls wait for it and nothing "
            "that needs it is started"
        )

    def counts(self) -> Mapping[str, int]:
        """Failures in a row, openings in a row, and calls held back."""
        return {"failures": self._failures, "openings": self._openings, "waiting": self._waiting}

    @asynccontextmanager
    async def passage(self) -> AsyncGenerator[Passage]:
        """Wait until the dependency may be asked, and ask it in the block.

        An exception that leaves the block is a failure of the dependency where nothing else was said.

        Raises:
            DependencyDownError: when it stayed down for longer than the patience.
        """
        is_trial = await self._admitted()
        passage = Passage()
        try:
            yield passage
        except Exception as error:
            if passage.cause is None and not passage.has_succeeded:
                passage.failed(f"{type(error).__name__}: {error}")
            raise
        finally:
            if is_trial:
                self._trials -= 1
            self._note(passage, is_trial=is_trial)
            self._wake()

    async def until_due(self) -> None:
        """Wait as long as it is open: what needs it may start then, and waits for its passage where a trial runs."""
        self._waiting += 1
        try:
            while self.state == "open":
                await self._until_changed()
        finally:
            self._waiting -= 1

    async def _admitted(self) -> bool:
        """True where the passage is a trial."""
        began = self._clock.monotonic()
        self._waiting += 1
        try:
            while True:
                state = self.state
                if state == "closed":
                    return False
                if state == "half_open" and self._trials < self._rules.trials:
                    self._trials += 1
                    return True
                waited_s = self._clock.monotonic() - began
                if waited_s > self._rules.patience_s:
                    raise DependencyDownError(f"{self.name} was waited for {waited_s:.0f} s; the last: {self._cause}")
                await self._until_changed()
        finally:
            self._waiting -= 1

    async def _until_changed(self) -> None:
        try:
            async with asyncio.timeout(self._rules.look_s):
                await self._changed.wait()
        except TimeoutError:
            return

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _note(self, passage: Passage, *, is_trial: bool) -> None:
        if passage.has_succeeded:
            self._close()
        elif passage.cause is not None:
            self._failures += 1
            self._cause = passage.cause
            if is_trial or (self._open_until is None and self._failures >= self._rules.failures):
                self._open()

    def _open(self) -> None:
        now = self._clock.monotonic()
        if self._open_until is None:
            self._opened_at = now
        self._openings += 1
        pause_s = self._rules.pause_s(self._openings)
        self._open_until = now + pause_s
        self._tell(
            f"{self.name} failed {self._failures} times in a row ({self._cause}); nothing that needs it is started for "
            f"{pause_s:g} s, then it is tried again"
        )

    def _close(self) -> None:
        """A success, of a trial or of a call that was under way when it opened."""
        if self._open_until is not None:
            since_s = self._clock.monotonic() - self._opened_at
            self._tell(f"{self.name} answers again, after {since_s:.0f} s; what needs it goes on")
        self._failures = self._openings = 0
        self._open_until = None
