"""Plain functions run away from the event loop, so that a slow tool holds up its own episode alone.

Nothing can end a thread. One that is not back in time is left behind and counted, and past a few of those the
environment is broken: its tools do not come back.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future

from rollwright.record import EnvironmentBrokenError

__all__ = ["ToolThreads"]

_MAX_LEFT_BEHIND = 8


class ToolThreads:
    """The threads of one environment's tools."""

    def __init__(self) -> None:
        self._left: set[threading.Thread] = set()

    async def run(self, function: Callable[[], object], name: str) -> object:
        """Call a function in a thread of its own; when this is cancelled, at a deadline too, it is left behind.

        Raises:
            EnvironmentBrokenError: where too many threads have not come back.
        """
        self._left = {thread for thread in self._left if thread.is_alive()}
        if len(self._left) >= _MAX_LEFT_BEHIND:
            raise EnvironmentBrokenError(f"{len(self._left)} calls of its tools have not come back")
        answer: Future[tuple[object, Exception | None]] = Future()
        answer.set_running_or_notify_cancel()  # From here on nobody can cancel it, so the thread may always answer.
        context = contextvars.copy_context()

        def work() -> None:
            try:
                answer.set_result((context.run(function), None))
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                answer.set_result((None, error))
            except BaseException as error:  # noqa: BLE001 - a tool that asks for the end of the process has failed
                answer.set_result((None, RuntimeError(f"it gave up: {type(error).__name__}: {error}")))

        thread = threading.Thread(target=work, name=f"tool {name}", daemon=True)
        thread.start()
        try:
            given, error = await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            self._left.add(thread)
            raise
        if error is not None:
            raise error
        return given
