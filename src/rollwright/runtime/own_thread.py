"""A thread of one's own that can be left behind: an executor whose hung call holds up neither the run nor its exit."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import ParamSpec, TypeVar, cast

__all__ = ["OwnThread"]

Parameters = ParamSpec("Parameters")
Given = TypeVar("Given")


class OwnThread(Executor):
    """Runs calls one after another in one daemon thread.

    `ThreadPoolExecutor` waits for its threads when the program ends, so a learner that hangs would hang the program
    after its diagnosis. This one waits `leave_s` and leaves. Whoever submits a call waits for it before the next, so
    the queue is as long as its callers are many: the loop, the weight channel and the probe.
    """

    def __init__(self, name: str, *, leave_s: float = 30.0) -> None:
        """Start the thread.

        Args:
            name: of the thread.
            leave_s: how long `shutdown` waits for the call that runs.
        """
        self._calls: queue.SimpleQueue[tuple[Future[object], Callable[[], None]] | None] = queue.SimpleQueue()
        self._leave_s = leave_s
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def submit(
        self, fn: Callable[Parameters, Given], /, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> "Future[Given]":
        """Call `fn` behind what was submitted before.

        Raises:
            RuntimeError: after `shutdown`.
        """
        future: Future[Given] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits for the answer
                future.set_exception(error)

        with self._lock:
            if self._is_closed:
                raise RuntimeError(f"thread {self._thread.name} takes no calls after its shutdown")
            self._calls.put((cast("Future[object]", future), call))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as Executor has it
        """Take no more calls and wait for those that were taken, but not for ever."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                if cancel_futures:
                    self._drop()
                self._calls.put(None)
        if wait:
            self._thread.join(self._leave_s)

    @property
    def is_left_behind(self) -> bool:
        """True where a call still runs after the shutdown."""
        return self._is_closed and self._thread.is_alive()

    def _drop(self) -> None:
        while not self._calls.empty():
            waiting = self._calls.get()
            if waiting is not None:
                waiting[0].cancel()

    def _work(self) -> None:
        while (waiting := self._calls.get()) is not None:
            waiting[1]()
