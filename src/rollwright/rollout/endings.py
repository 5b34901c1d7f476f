"""How an episode is left: by a reason, and by the clock."""

import asyncio
from collections.abc import Awaitable
from typing import NoReturn, TypeVar

from rollwright.record import FailureClass, TerminalReason
from rollwright.rollout.clock import Clock
from rollwright.rollout.spec import Limits

__all__ = ["LEAST_WAIT_S", "EpisodeEndedError", "Timekeeper", "failure_class_of"]

LEAST_WAIT_S = 0.001
T = TypeVar("T")


def failure_class_of(reason: TerminalReason) -> FailureClass | None:
    """Whose doing it is that an episode cannot be trained; None where it can."""
    if reason is TerminalReason.INFRASTRUCTURE_FAILURE:
        return "infrastructure"
    return None if reason.is_trainable else "abandoned"


class EpisodeEndedError(Exception):
    """Leaves the loop with the reason; the driver makes a trajectory of it."""

    def __init__(self, reason: TerminalReason, cause: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.cause = cause


class Timekeeper:
    """Knows what is left of the wall clock's limit, and what it means when that is nothing."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._started = clock.monotonic()
        self.started_at = clock.now()

    def remaining_s(self) -> float:
        """Seconds to the limit, negative behind it."""
        return self._limits.wall_clock_s - (self._clock.monotonic() - self._started)

    async def within(self, answer: Awaitable[T], allowed_s: float, what: str) -> T:
        """Wait for an answer; a wait that is too long ends the episode.

        Raises:
            EpisodeEndedError: where it took longer than `allowed_s`.
        """
        timeout = asyncio.timeout(max(allowed_s, LEAST_WAIT_S))
        try:
            async with timeout:
                return await answer
        except TimeoutError:
            if not timeout.expired():
                raise
            self.end(what)

    def end(self, what: str) -> NoReturn:
        """Leave because of the clock.

        Raises:
            EpisodeEndedError: `wall_clock_limit`, or in the deterministic mode an infrastructure failure.
        """
        limits = self._limits
        if limits.clock == "limit":
            raise EpisodeEndedError(TerminalReason.WALL_CLOCK_LIMIT)
        raise EpisodeEndedError(
            TerminalReason.INFRASTRUCTURE_FAILURE,
            f"{what} ran into a time limit (wall_clock_s {limits.wall_clock_s:g}, call_s {limits.call_s:g}); in the "
            "deterministic mode time is nobody's doing",
        )
