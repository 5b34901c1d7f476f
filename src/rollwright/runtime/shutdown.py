"""Ctrl-C: once finishes the step and saves, twice stops at once, and loses nothing that was saved."""

import asyncio
import signal
from collections.abc import Callable
from types import FrameType

__all__ = ["Shutdown"]

_PATIENCE = 2
"""Requests that the loop is asked to serve."""


class Shutdown:
    """Counts requests to stop; the loop looks after each saved step."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        """`tell` shows a person what a request did."""
        self._tell = tell
        self._requests = 0

    @property
    def is_requested(self) -> bool:
        """True once someone asked to stop."""
        return self._requests > 0

    def request(self, cancel: Callable[[], object]) -> None:
        """Ask to stop; the second time `cancel` ends the run at once."""
        self._requests += 1
        if self._requests == 1:
            self._tell("stopping after this step is saved; press Ctrl-C again (or send the signal again) to stop now")
        else:
            cancel()

    def listen(self) -> Callable[[], None]:
        """Take SIGINT and SIGTERM for the current task; returns what undoes it.

        The third one raises KeyboardInterrupt where the program stands: code that blocks the loop, or a task that
        swallows its cancellation, cannot hold a person.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None, "listen is called from within the run's task"
        heard = 0

        def hear(number: int, frame: FrameType | None) -> None:
            nonlocal heard
            heard += 1
            if heard > _PATIENCE:
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(self.request, task.cancel)

        before = {sign: signal.signal(sign, hear) for sign in (signal.SIGINT, signal.SIGTERM)}

        def undo() -> None:
            for sign, handler in before.items():
                signal.signal(sign, handler)

        return undo
