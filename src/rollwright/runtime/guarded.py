"""Verifiers and environments behind a breaker: their callers wait while the dependency is down, and nothing is scored.

    GuardedVerifier(verifier, breaker)          verdicts that the verifier itself could not give count as failures
    GuardedEnvironment(environment, breaker)    episodes that the environment broke count as failures
    held(breakers, run_episode)                 no attempt starts while one of the breakers is open

An attempt that is held keeps its slot in flight, so that admission stops by itself.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from rollwright.environments.passing import Asked, PassingEnvironment, PassingEpisode
from rollwright.record import Environment, Episode, Submission, Task, Verdict, Verifier
from rollwright.runtime.breaker import Breaker
from rollwright.runtime.parts import Attempt
from rollwright.verifiers.passing import PassingVerifier

__all__ = ["GuardedEnvironment", "GuardedVerifier", "held"]

_Ended = TypeVar("_Ended")
_Given = TypeVar("_Given")
_ITS_OWN_FAULT = frozenset({"timeout", "infrastructure", "grader_error"})
"""Outcomes that say nothing of the policy; an unparsable judge did answer."""


class GuardedVerifier(PassingVerifier):
    """A verifier whose server may be down. Its deadline grows by the patience; within, it keeps its own."""

    def __init__(self, verifier: Verifier, breaker: Breaker, *, patience_s: float) -> None:
        """Ask `verifier` while `breaker` lets it; a call waits at most `patience_s` for that."""
        super().__init__(verifier)
        self._breaker = breaker
        self._patience_s = patience_s

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


class GuardedEnvironment(PassingEnvironment):
    """An environment whose server may be down."""

    def __init__(self, environment: Environment, breaker: Breaker) -> None:
        """Open episodes of `environment` while `breaker` lets it."""
        super().__init__(environment)
        self._breaker = breaker

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        """An episode once the environment may be asked; what it raises is a failure, its end a success."""
        inner = self._behind(task, seed, snapshot)
        async with self._breaker.passage() as passage, inner as episode:
            guarded = _GuardedEpisode(episode)
            yield guarded
            if guarded.cause is None:
                passage.succeeded()
            else:
                passage.failed(guarded.cause)


class _GuardedEpisode(PassingEpisode):
    """Notes which answer did not come: whoever waits for it gives it up by cancelling."""

    def __init__(self, episode: Episode) -> None:
        super().__init__(episode)
        self.cause: str | None = None

    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        if asked.kind == "snapshot":  # Not every episode has one.
            return await answer()
        try:
            return await answer()
        except asyncio.CancelledError:
            self.cause = f"{asked.what} did not come in time"
            raise
        except Exception as error:
            self.cause = f"{asked.what} failed: {type(error).__name__}: {error}"
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
