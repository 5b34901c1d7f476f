"""Time as an argument: the driver reads no clock of its own."""

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

__all__ = ["Clock", "FixedClock", "SystemClock"]


class Clock(Protocol):
    """Gives the time of day, and a time for durations."""

    def now(self) -> datetime:
        """UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never backwards."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since some start."""
        return time.monotonic()


@dataclass(slots=True)
class FixedClock:
    """A clock that stands still until it is moved, for tests and replays."""

    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    elapsed_s: float = 0.0

    def advance(self, seconds: float) -> None:
        """Move on."""
        self.elapsed_s += seconds

    def now(self) -> datetime:
        """The start and what has passed since."""
        return self.start + timedelta(seconds=self.elapsed_s)

    def monotonic(self) -> float:
        """Seconds that have passed."""
        return self.elapsed_s
