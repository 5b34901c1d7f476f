"""An episode is entered and left within a time, like everything else that waits on its environment."""

import asyncio
from collections.abc import Awaitable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TypeVar

from rollwright.record import EnvironmentBrokenError, Episode
from rollwright.rollout.borders import is_cancelled
from rollwright.rollout.endings import LEAST_WAIT_S, Timekeeper

__all__ = ["GRACE_S", "Stay", "owed"]

GRACE_S = 10.0
"""How long after its deadline an engine may still answer, and an environment may take to give up an episode."""


T = TypeVar("T")


class Stay:
    """The context of an episode. Too long a wait at its doors is the environment's fault, not the policy's."""

    def __init__(self, context: AbstractAsyncContextManager[Episode], time: Timekeeper) -> None:
        self._context = context
        self._time = time

    async def __aenter__(self) -> Episode:
        """Enter, for as long as the wall clock allows.

        Raises:
            EnvironmentBrokenError: where it took longer.
        """
        return await owed(self._context.__aenter__(), self._time.remaining_s(), "opening the episode")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave within the grace. What ended the episode is never silenced, a cancelling of its task least of all.

        Raises:
            EnvironmentBrokenError: where it took longer.
        """
        try:
            await owed(self._context.__aexit__(kind, error, trace), GRACE_S, "leaving the episode")
        except Exception:
            if isinstance(error, asyncio.CancelledError) and is_cancelled(error):
                return
            raise


async def owed(answer: Awaitable[T], allowed_s: float, what: str) -> T:
    """Wait for what an environment owes, whatever the policy did.

    Raises:
        EnvironmentBrokenError: where it took longer than `allowed_s`.
    """
    timeout = asyncio.timeout(max(allowed_s, LEAST_WAIT_S))
    try:
        async with timeout:
            return await answer
    except TimeoutError as error:
        if not timeout.expired():
            raise
        raise EnvironmentBrokenError(f"{what} took longer than {allowed_s:g} s") from error
