"""Verifiers and environments behind a breaker: their callers wait while the dependency is down, and nothing is scored.

    GuardedVerifier(verifier, breaker)          verdicts that the verifier itself could not give count as failures
    GuardedEnvironment(environment, breaker)    episodes that the environment broke count as failures
    held(breakers, run_episode)                 no attempt starts while one of the breakers is open

An attempt that is held keeps its slot in flight, so that admission stops by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeVar

from rollwright.record import (
    Action,
    Environment,
    Episode,
    StepResult,
    Submission,
    Task,
    ToolRequest,
    ToolResult,
    Verdict,
    Verifier,
)
from rollwright.runtime.breaker import Breaker
from rollwright.runtime.parts import Attempt

__all__ = ["GuardedEnvironment", "GuardedVerifier", "held"]

_Ended = TypeVar("_Ended")
_Given = TypeVar("_Given")
_ITS_OWN_FAULT = frozenset({"timeout", "infrastructure", "grader_error"})
"""Outcomes that say nothing of the policy; an unparsable judge did answer."""


class GuardedVerifier:
    """A verifier whose server may be down. Its deadline grows by the patience; within, it keeps its own."""

    def __init__(self, verifier: Verifier, breaker: Breaker, *, patience_s: float) -> None:
        """Ask `verifier` while `breaker` lets it; a call waits at most `patience_s` for that."""
        self._verifier = verifier
        self._breaker = breaker
        self._patience_s = patience_s

    @property
    def name(self) -> str:
        """Of the verifier within."""
        return self._verifier.name

    @property
    def revision(self) -> str:
        """Of the verifier within: when it is asked changes no verdict."""
        return self._verifier.revision

    @property
    def scope(self) -> Literal["trajectory", "group"]:
        """Of the verifier within."""
        return self._verifier.scope

    @property
    def deadline_s(self) -> float:
        """Its own, and what a call may wait before."""
        return self._verifier.deadline_s + self._patience_s

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        """Judge once the verifier may be asked.

        Raises:
            DependencyDownError: when it stayed down; the trajectories are unscored, never scored by it.
            TimeoutError: of its own deadline.
        """
        async with self._breaker.passage() as passage:
            async with asyncio.timeout(self._verifier.deadline_s):
                verdicts = await self._verifier.verify(submissions)
            faults = [v for v in verdicts if isinstance(v.outcome, str) and v.outcome in _ITS_OWN_FAULT]
            if faults:
                passage.failed(f"{faults[0].outcome}: {faults[0].evidence[:200]}")
            else:
                passage.succeeded()
            return verdicts


class GuardedEnvironment:
    """An environment whose server may be down."""

    def __init__(self, environment: Environment, breaker: Breaker) -> None:
        """Open episodes of `environment` while `breaker` lets it."""
        self._environment = environment
        self._breaker = breaker

    @property
    def name(self) -> str:
        """Of the environment within."""
        return self._environment.name

    @property
    def revision(self) -> str:
        """Of the environment within."""
        return self._environment.revision

    @property
    def actors(self) -> Mapping[str, str]:
        """Of the environment within."""
        return self._environment.actors

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        """An episode once the environment may be asked; what it raises is a failure, its end a success."""
        inner = (
            self._environment.open(task, seed=seed)
            if snapshot is None
            else self._environment.open(task, seed=seed, snapshot=snapshot)
        )
        async with self._breaker.passage() as passage, inner as episode:
            guarded = _GuardedEpisode(episode)
            yield guarded
            if guarded.cause is None:
                passage.succeeded()
            else:
                passage.failed(guarded.cause)


class _GuardedEpisode:
    """Notes which answer did not come: whoever waits for it gives it up by cancelling."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self.cause: str | None = None

    @property
    def tools(self) -> Mapping[str, str]:
        return self._episode.tools

    async def begin(self) -> StepResult:
        return await self._noted("its beginning", self._episode.begin())

    async def call(self, request: ToolRequest) -> ToolResult:
        return await self._noted(f"tool {request.tool}", self._episode.call(request))

    async def step(self, action: Action) -> StepResult:
        return await self._noted("its step", self._episode.step(action))

    async def artifacts(self) -> Mapping[str, bytes]:
        return await self._episode.artifacts()

    async def snapshot(self) -> bytes:
        return await self._episode.snapshot()

    async def _noted(self, what: str, answer: Awaitable[_Given]) -> _Given:
        try:
            return await answer
        except asyncio.CancelledError:
            self.cause = f"{what} did not come in time"
            raise
        except Exception as error:
            self.cause = f"{what} failed: {type(error).__name__}: {error}"
            raise


def held(
    breakers: Sequence[Breaker], run_episode: Callable[[Attempt], Awaitable[_Ended]]
) -> Callable[[Attempt], Awaitable[_Ended]]:
    """Start no attempt while a breaker is open.

    Args:
        breakers: of all that an episode and its verdict need.
        run_episode: what the dispatcher calls.
    """

    async def run(attempt: Attempt) -> _Ended:
        for breaker in breakers:
            await breaker.until_due()
        return await run_episode(attempt)

    return run
