"""When a fault strikes: events are counted from the beginning of the RL stage."""

import threading

__all__ = ["InjectedFaultError", "Strikes"]


class InjectedFaultError(Exception):
    """What a drill breaks breaks with this, where no more telling error is due."""


class Strikes:
    """Counts events and says which of them are struck. Used from any thread."""

    def __init__(self, *, first: int, every: int = 0, most: int = 1) -> None:
        """Strike the event number `first` (from 1), then each `every`-th after it, `most` times in all.

        Args:
            first: of the events behind `arm`.
            every: 0: one after the other.
            most: after which nothing is struck.
        """
        self._first = first
        self._every = every
        self._most = most
        self._lock = threading.Lock()
        self._seen = 0
        self._hits = 0
        self._misses = 0
        self._is_armed = False

    @property
    def hits(self) -> int:
        """Events that were struck."""
        return self._hits

    @property
    def misses(self) -> int:
        """Events that were to be struck, with nothing there to break."""
        return self._misses

    def arm(self) -> None:
        """Count from here on."""
        self._is_armed = True

    def hit(self) -> bool:
        """An event: True where the fault is to strike it."""
        with self._lock:
            if not self._is_armed:
                return False
            self._seen += 1
            behind = self._seen - self._first
            is_due = behind >= 0 and (self._every == 0 or behind % self._every == 0)
            if is_due and self._hits < self._most:
                self._hits += 1
                return True
            return False

    def missed(self) -> None:
        """The event that was just struck had nothing to break: it is no hit, and the next that is due is struck."""
        with self._lock:
            self._hits -= 1
            self._misses += 1
