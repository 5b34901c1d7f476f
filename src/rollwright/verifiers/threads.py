"""Keep a verifier that may block away from the event loop.

A deadline can end what waits, not what computes or sleeps in a thread. So a verifier that is not known to behave runs
in a thread of its own with a loop of its own; at the deadline the thread is left behind, counted, and past a few of
those the verifier is no longer asked.
"""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from rollwright.record import Submission, Verdict, Verifier
from rollwright.verifiers.passing import PassingVerifier

__all__ = ["ThreadedVerifier"]

_MAX_LEFT_BEHIND = 8


class ThreadedVerifier(PassingVerifier):
    """A verifier in threads; for parts from outside the project."""

    def __init__(self, verifier: Verifier) -> None:
        super().__init__(verifier)
        self._left: set[threading.Thread] = set()

    @property
    def deadline_s(self) -> float:
        """Of the verifier behind."""
        return self._verifier.deadline_s

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge in a thread; when this call is cancelled, at a deadline too, the thread is left behind."""
        self._left = {thread for thread in self._left if thread.is_alive()}
        if len(self._left) >= _MAX_LEFT_BEHIND:
            raise RuntimeError(f"{len(self._left)} calls of verifier {self.name} have not come back")
        answer: Future[Sequence[Verdict]] = Future()
        answer.set_running_or_notify_cancel()  # From here on nobody can cancel it, so the thread may always answer.

        def work() -> None:
            try:
                answer.set_result(asyncio.run(_verify(self._verifier, submissions)))
            except Exception as error:  # noqa: BLE001 - handed to whoever waits for the answer
                answer.set_exception(error)
            except BaseException as error:  # noqa: BLE001 - a verifier that asks for the end of the process fails
                answer.set_exception(RuntimeError(f"the verifier gave up: {type(error).__name__}: {error}"))

        thread = threading.Thread(target=work, name=f"verify {self.name}", daemon=True)
        thread.start()
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            self._left.add(thread)
            raise


async def _verify(verifier: Verifier, submissions: Sequence[Submission]) -> Sequence[Verdict]:
    return await verifier.verify(submissions)
