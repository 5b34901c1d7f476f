"""Ctrl-C: once finishes the step and saves, twice stops at once and loses nothing that was saved."""

import asyncio
import signal
from collections.abc import Callable

__all__ = ["Shutdown"]


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
            self._tell("stopping after this step is saved; press Ctrl-C again to stop now")
        else:
            cancel()

    def listen(self) -> Callable[[], None]:
        """Take SIGINT and SIGTERM in the running loop for the current task; returns what undoes it."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        assert task is not None, "listen is called from within the run's task"
        for sign in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(sign, self.request, task.cancel)

        def undo() -> None:
            for sign in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(sign)

        return undo
