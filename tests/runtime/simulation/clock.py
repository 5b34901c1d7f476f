"""An event loop whose time is simulated: it jumps to the next timer, waits for nothing, and knows when nothing is left.

    ready? ──yes──► run ──► every call counted: here a process can be killed
      │ no
      └──► timers? ──yes──► time jumps to the first
               └──no──► StuckError: who waits, and where

Work for threads runs on the loop at the end of a simulated duration, one call at a time for each executor.
"""

import asyncio
from asyncio import base_events
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from contextvars import Context
from typing import Any

__all__ = ["KilledError", "SimulatedLoop", "StuckError"]

Call = Callable[..., Any]


class KilledError(KeyboardInterrupt):
    """The process is gone: nothing of it runs any more. (The loop lets nothing else through its calls.)"""


class StuckError(Exception):
    """Nothing is ready, no timer is set, and something is waited for; or it goes on for ever."""


class _Jump:
    """In the selector's place: time goes by at once."""

    def __init__(self, loop: "SimulatedLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> Sequence[object]:
        self._loop.check_end()
        if timeout is None:
            raise StuckError(f"nothing will ever happen again; {waiting(self._loop)}")
        self._loop.now += timeout
        return ()


class SimulatedLoop(base_events.BaseEventLoop):
    """Deterministic; `after_call` hears the number of each call that was made, and may raise `KilledError`."""

    def __init__(
        self,
        *,
        duration: Callable[[Executor | None], float] = lambda executor: 0.0,
        after_call: Callable[[int], None] = lambda number: None,
        most_calls: int = 2_000_000,
    ) -> None:
        super().__init__()
        self._selector = _Jump(self)
        # Far from 0 a timer's moment plus the real clock's nanosecond is that moment again, and it would never be due.
        self._clock_resolution = 1e-6
        self._duration = duration
        self._after_call = after_call
        self._most_calls = most_calls
        self._busy_until: dict[Executor, float] = {}
        self.now = 0.0
        self.calls = 0
        self.is_dead = False
        self.complaints: list[str] = []
        self.set_exception_handler(lambda loop, context: self.complaints.append(str(context)))

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Call, *args: Any, context: Context | None = None) -> asyncio.Handle:
        return super().call_soon(self._counted, callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Call, *args: Any) -> "asyncio.Future[Any]":
        future = self.create_future()
        begins = self.now if executor is None else max(self.now, self._busy_until.get(executor, 0.0))
        ends = begins + self._duration(executor)
        if executor is not None:
            self._busy_until[executor] = ends
        self.call_at(ends, lambda: self.call_soon(self._work, future, func, *args))
        return future

    def call_off(self) -> None:
        """End every task of a process that was killed; what its threads had to do is not done."""
        self.is_dead = True
        # A wait that was answered in the same moment can lose its cancellation; nothing of that counts any more.
        for _ in range(5):
            left = asyncio.all_tasks(self)
            for task in left:
                task.cancel()
            if left:
                with suppress(StuckError):
                    self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())

    def check_end(self) -> None:
        """Say so where a run goes on for ever."""
        if self.calls > self._most_calls and not self.is_dead:
            raise StuckError(f"no end after {self.calls} calls and {self.now:.0f} s; {waiting(self)}")

    def _counted(self, callback: Call, *args: Any) -> None:
        self.calls += 1
        callback(*args)
        if not self.is_dead:
            self._after_call(self.calls)

    def _work(self, future: "asyncio.Future[Any]", func: Call, *args: Any) -> None:
        if self.is_dead:
            future.cancel()
            return
        try:
            result = func(*args)
        except Exception as error:  # noqa: BLE001 - a thread hands over whatever it ran into
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(result)

    def _process_events(self, event_list: Sequence[object]) -> None:
        """No event comes from outside."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that could be woken."""


def waiting(loop: asyncio.AbstractEventLoop) -> str:
    """Every task that is left, with the line on which it stands."""
    lines: list[str] = []
    for task in sorted(asyncio.all_tasks(loop), key=lambda one: one.get_name()):
        frames = task.get_stack(limit=1)
        place = f"{frames[-1].f_code.co_qualname}:{frames[-1].f_lineno}" if frames else "not begun"
        lines.append(f"{task.get_name()} at {place}")
    return f"{len(lines)} tasks wait: " + "; ".join(lines)
