"""Plain code of other packages, run where it may take its time and with random numbers of its own.

Such code blocks, and much of it draws from the generators that the whole process shares (`random`, `numpy.random`).
So each call runs in a thread, and while it runs these generators stand where the same game left them: games that take
turns see what they would see alone. Only one such call runs at a time; torch's generator is left alone.
"""

import random
import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import EnvironmentBrokenError

__all__ = ["ForeignCode", "brief"]

Given = TypeVar("Given")
_SHARED_RANDOM = threading.Lock()
"""Guards what the interpreter has one of."""
_WAIT_S = 60.0


class ForeignCode:
    """Runs the calls of one game, one after the other."""

    def __init__(self, threads: ToolThreads, name: str, seed: int) -> None:
        """Take a stand of the shared generators.

        Args:
            threads: of the environment.
            name: of the thread.
            seed: where the generators stand at first.
        """
        self._threads = threads
        self._name = name
        self._python = random.Random(seed).getstate()
        self._numpy = np.random.RandomState(seed % 2**32).get_state()

    async def run(self, function: Callable[[], Given]) -> Given:
        """Call it in a thread; when this is cancelled, at a deadline too, the thread is left behind.

        Raises:
            EnvironmentBrokenError: where another call holds the shared generators and does not come back.
        """
        given: list[Given] = []
        await self._threads.run(lambda: given.append(self._with_own_random(function)), self._name)
        return given[0]

    def _with_own_random(self, function: Callable[[], Given]) -> Given:
        if not _SHARED_RANDOM.acquire(timeout=_WAIT_S):
            raise EnvironmentBrokenError(f"{self._name}: another environment's call has not come back")
        try:
            kept_python, kept_numpy = random.getstate(), np.random.get_state()
            random.setstate(self._python)
            np.random.set_state(self._numpy)
            try:
                return function()
            finally:
                self._python, self._numpy = random.getstate(), np.random.get_state()
                random.setstate(kept_python)
                np.random.set_state(kept_numpy)
        finally:
            _SHARED_RANDOM.release()


def brief(error: BaseException) -> str:
    """An error of someone else's code in a line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
