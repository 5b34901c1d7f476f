"""A bound on how many are inside at once, for waiters of several event loops."""

import asyncio
import threading
from collections import deque

__all__ = ["Gate"]


class Gate:
    """Lets so many pass, the others in the order in which they came."""

    def __init__(self, num_places: int) -> None:
        self._free = num_places
        self._lock = threading.Lock()
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place and take it."""
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                is_waiting = turn in self._waiting
                if is_waiting:
                    self._waiting.remove(turn)
            if not is_waiting:
                self.leave()  # The place was on its way; let the next have it.
            raise

    def leave(self) -> None:
        """Give the place to who waits longest."""
        with self._lock:
            while self._waiting:
                turn = self._waiting.popleft()
                try:
                    turn.get_loop().call_soon_threadsafe(_settle, turn)
                except RuntimeError:
                    continue  # Its loop is closed, and it with it.
                return
            self._free += 1


def _settle(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
