"""The real environment and the real verifiers with a fault between them and their callers."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar, assert_never, cast

from rollwright.environments import DemonstratedTurn, DemonstratingEnvironment
from rollwright.environments.passing import Asked, PassingEnvironment, PassingEpisode
from rollwright.recipes.drills.kinds import EnvironmentFault, VerifierFault
from rollwright.recipes.drills.strikes import InjectedFaultError, Strikes
from rollwright.record import Environment, Episode, Submission, Task, Verdict, Verifier
from rollwright.verifiers.passing import PassingVerifier

__all__ = ["FaultyEnvironment", "FaultyVerifier"]

_Given = TypeVar("_Given")
_SLOW_S = 0.1
_HUNG_DEADLINE_S = 0.5


class FaultyEnvironment(PassingEnvironment):
    """Struck at an answer: of a tool, or of the environment at the beginning and to a turn."""

    def __init__(
        self, environment: Environment, fault: EnvironmentFault, strikes: Strikes, kill: Callable[[], int]
    ) -> None:
        """Stand before `environment`; `kill` ends the processes of its sandboxes and counts them."""
        super().__init__(environment)
        self._fault: EnvironmentFault = fault
        self._strikes = strikes
        self._kill = kill

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """Of the environment behind; the wiring asked whether it has any."""
        return cast("DemonstratingEnvironment", self._environment).demonstrate(task, seed)

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        """An episode of the environment behind; those of held-out tasks are let be."""
        async with self._behind(task, seed, snapshot) as episode:
            yield _FaultyEpisode(episode, self._strike) if task.split == "train" else episode

    async def _strike(self) -> None:
        if not self._strikes.hit():
            return
        fault: EnvironmentFault = self._fault
        match fault:
            case "slow":
                await asyncio.sleep(_SLOW_S)
            case "fails":
                raise InjectedFaultError("the tool broke")
            case "hangs":
                await asyncio.Event().wait()
            case "loses_processes":
                if not self._kill():
                    self._strikes.missed()
            case _:
                assert_never(fault)


class _FaultyEpisode(PassingEpisode):
    def __init__(self, episode: Episode, strike: Callable[[], Awaitable[None]]) -> None:
        super().__init__(episode)
        self._strike = strike

    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        if asked.kind not in ("artifacts", "snapshot"):
            await self._strike()
        return await answer()


class FaultyVerifier(PassingVerifier):
    """Struck at a call for training episodes."""

    def __init__(self, verifier: Verifier, fault: VerifierFault, strikes: Strikes, kill: Callable[[], int]) -> None:
        """Stand before `verifier`; `kill` ends the processes of its pools and counts them."""
        super().__init__(verifier)
        self._fault: VerifierFault = fault
        self._strikes = strikes
        self._kill = kill

    @property
    def deadline_s(self) -> float:
        """Of the verifier behind; shorter where it is to pass."""
        return min(self._verifier.deadline_s, _HUNG_DEADLINE_S) if self._fault == "hangs" else self._verifier.deadline_s

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Pass on, unless it is a call that is struck."""
        if submissions and submissions[0].trajectory_id.startswith("t") and self._strikes.hit():
            fault: VerifierFault = self._fault
            match fault:
                case "raises":
                    raise InjectedFaultError("the grader broke")
                case "is_down":
                    raise InjectedFaultError("connection refused")
                case "hangs":
                    await asyncio.Event().wait()
                case "loses_processes":
                    if not self._kill():
                        self._strikes.missed()
                case _:
                    assert_never(fault)
        return await self._verifier.verify(submissions)
