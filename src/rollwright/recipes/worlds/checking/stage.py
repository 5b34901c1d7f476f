"""Asks an environment, within a time, and says where it was when something went wrong."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, CheckHungError, EnvironmentFaultError, shown
from rollwright.record import Environment, EnvironmentBrokenError, Episode, Task

__all__ = ["SLOW_S", "Stage", "describe"]

SLOW_S = 120.0
"""For what happens once: building a world, making its tasks, closing it."""
T = TypeVar("T")
TellFn = Callable[[str, float], None]
"""(where, seconds that it may take): told before everything that could hang or kill the process."""


def describe(error: BaseException) -> str:
    """Class and message of an error, on one line."""
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:  # noqa: BLE001 - an error from outside may fail at saying what it is
        return type(error).__name__


class Stage:
    """Where a world is played: every answer has a limit, and every place is told before it is gone to."""

    def __init__(self, *, limit_s: float, tell: TellFn) -> None:
        """Store both."""
        self.limit_s = limit_s
        self._tell = tell

    def at(self, where: str, allowed_s: float | None = None) -> None:
        """Say where the next thing happens."""
        self._tell(where, self.limit_s if allowed_s is None else allowed_s)

    async def ask(self, where: str, question: Callable[[], Awaitable[T]]) -> T:
        """Wait for an answer that the environment owes.

        Raises:
            CheckHungError: where it did not come in time.
            EnvironmentFaultError: where the environment raised.
        """
        self.at(where)
        timeout = asyncio.timeout(self.limit_s)
        try:
            async with timeout:
                return await question()
        except TimeoutError as error:
            if timeout.expired():
                raise CheckHungError(
                    f"{where} did not come back within {self.limit_s:g} s; every answer of an episode ends by itself, "
                    "a slow tool with status `timeout`"
                ) from error
            raise _raised(where, error) from error
        except CheckFailedError:
            raise
        except EnvironmentBrokenError as error:
            raise EnvironmentFaultError(
                f"{where} raised EnvironmentBrokenError ({shown(str(error))}); nothing was wrong with what was asked"
            ) from error
        except Exception as error:
            raise _raised(where, error) from error
        except (SystemExit, KeyboardInterrupt) as error:
            raise _raised(where, error) from error
        except asyncio.CancelledError as error:
            if is_cancelled():
                raise
            raise _raised(where, error) from error

    @asynccontextmanager
    async def opened(
        self, environment: Environment, task: Task, seed: int, *, where: str, snapshot: bytes | None = None
    ) -> AsyncGenerator[Episode]:
        """Open an episode and leave it again, both within the limit. What the body raises goes on as it is."""

        async def enter() -> Episode:
            return await context.__aenter__()

        self.at(f"opening {where}")
        try:
            context = environment.open(task, seed=seed, snapshot=snapshot)
        except Exception as error:
            raise _raised(f"opening {where}", error) from error
        episode = await self.ask(f"opening {where}", enter)
        try:
            yield episode
        except BaseException as error:
            trace = error.__traceback__
            caught = error
            try:
                await self.ask(f"leaving {where}", lambda: context.__aexit__(type(caught), caught, trace))
            except CheckFailedError as left:
                # A context that lets what happened inside pass through is as it should be.
                if left.__cause__ is not caught:
                    raise
            raise
        await self.ask(f"leaving {where}", lambda: context.__aexit__(None, None, None))


def is_cancelled() -> bool:
    """Whether the task that runs this is itself being cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def _raised(where: str, error: BaseException) -> EnvironmentFaultError:
    return EnvironmentFaultError(
        f"{where} raised {shown(describe(error))}; an environment raises EnvironmentBrokenError for its own faults and "
        "answers the policy's"
    )
