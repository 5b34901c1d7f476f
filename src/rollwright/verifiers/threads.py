"""Keep a verifier that may block away from the event loop.

A deadline can end what waits, not what computes or sleeps in a thread. So a verifier that is not known to behave runs
in a thread with a loop of its own; at the deadline the thread is left behind, counted, and past a few of those the
verifier is no longer asked. A thread that has answered takes the next call, and ends when none comes.
"""

import asyncio
import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Final

from rollwright.record import Submission, Verdict, Verifier
from rollwright.verifiers.passing import PassingVerifier

__all__ = ["ThreadedVerifier"]

_MAX_LEFT_BEHIND = 8
_IDLE_S: Final = 1.0
"""After which a thread without a call ends."""


class ThreadedVerifier(PassingVerifier):
    """A verifier in threads; for parts from outside the project."""

    def __init__(self, verifier: Verifier) -> None:
        super().__init__(verifier)
        self._left: set[Future[Sequence[Verdict]]] = set()
        self._idle = _Idle()

    @property
    def deadline_s(self) -> float:
        """Of the verifier behind."""
        return self._verifier.deadline_s

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge in a thread; when this call is cancelled, at a deadline too, the thread is left behind."""
        self._left = {answer for answer in self._left if not answer.done()}
        if len(self._left) >= _MAX_LEFT_BEHIND:
            raise RuntimeError(f"{len(self._left)} calls of verifier {self.name} have not come back")
        worker = self._idle.take() or _Worker(self._verifier, self._idle)
        answer = worker.ask(submissions)
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            self._left.add(answer)
            raise


class _Idle:
    """Threads that wait for a call, the last to answer first; each is taken by one caller, or ends."""

    def __init__(self) -> None:
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()

    def put(self, worker: "_Worker") -> None:
        with self._lock:
            self._workers.append(worker)

    def take(self) -> "_Worker | None":
        with self._lock:
            return self._workers.pop() if self._workers else None

    def leave(self, worker: "_Worker") -> bool:
        """Take this one out; False where a caller has it already."""
        with self._lock:
            if worker not in self._workers:
                return False
            self._workers.remove(worker)
            return True


class _Worker:
    """A thread and its loop; one call at a time."""

    def __init__(self, verifier: Verifier, idle: _Idle) -> None:
        self._verifier = verifier
        self._idle = idle
        self._calls: queue.SimpleQueue[tuple[Sequence[Submission], Future[Sequence[Verdict]]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=f"verify {verifier.name}", daemon=True).start()

    def ask(self, submissions: Sequence[Submission]) -> Future[Sequence[Verdict]]:
        """Hand a call over; only to a thread that nobody else has."""
        answer: Future[Sequence[Verdict]] = Future()
        answer.set_running_or_notify_cancel()  # From here on nobody can cancel it, so the thread may always answer.
        self._calls.put((submissions, answer))
        return answer

    def _work(self) -> None:
        with asyncio.Runner() as runner:
            while True:
                try:
                    submissions, answer = self._calls.get(timeout=_IDLE_S)
                except queue.Empty:
                    if self._idle.leave(self):
                        return
                    continue
                if not self._answer(runner, submissions, answer):
                    return

    def _answer(
        self, runner: asyncio.Runner, submissions: Sequence[Submission], answer: Future[Sequence[Verdict]]
    ) -> bool:
        """Judge; False where the verifier left something running in this loop, which is not for the next call."""
        found: Sequence[Verdict] | Exception
        try:
            found = runner.run(_verify(self._verifier, submissions))
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for the answer
            found = error
        except BaseException as error:  # noqa: BLE001 - a verifier that asks for the end of the process fails
            found = RuntimeError(f"the verifier gave up: {type(error).__name__}: {error}")
        is_clean = not asyncio.all_tasks(runner.get_loop())
        if is_clean:
            self._idle.put(self)
        if isinstance(found, Exception):
            answer.set_exception(found)
        else:
            answer.set_result(found)
        return is_clean


async def _verify(verifier: Verifier, submissions: Sequence[Submission]) -> Sequence[Verdict]:
    return await verifier.verify(submissions)
