"""Verifiers, tools and environments from outside the project, as a recipe names them: `tests.end_to_end.parts:NAME`."""

import hashlib
import json
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from rollwright.environments import ToolEnvironment, ToolLimits, tool_of
from rollwright.environments.passing import Asked, PassingEnvironment, PassingEpisode
from rollwright.recipes.worlds.interpreter import load as interpreter
from rollwright.recipes.worlds.world import World
from rollwright.record import (
    Action,
    StepResult,
    Submission,
    Task,
    ToolRequest,
    Verdict,
    Verifier,
)

_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """Pays 1 for about half of all texts, by a digest of what the policy wrote: contrast without skill."""

    name: str = "parity"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Generous:
    """Pays 1 for everything: no group has a contrast."""

    name: str = "generous"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        return [_verdict(self, s, 1.0) for s in submissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """Raises on about a third of all texts, and pays by parity otherwise."""

    name: str = "broken"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        if any(_number(s) % 3 == 0 for s in submissions):
            raise ZeroDivisionError("the grader divided by zero")
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


@dataclass(frozen=True, slots=True, kw_only=True)
class Useless:
    """Raises on everything."""

    name: str = "useless"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 10.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        raise FileNotFoundError("the gold answers are gone")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hung:
    """Hangs on a few texts, in a call that no deadline can end."""

    name: str = "hung"
    revision: str = "1"
    scope: Literal["trajectory"] = "trajectory"
    deadline_s: float = 0.3

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        if any(s.trajectory_id.startswith("t") and _number(s) % 8 == 0 for s in submissions):
            time.sleep(1.0)  # noqa: ASYNC251 - blocking on purpose: that is what a bad grader does
        return [_verdict(self, s, float(_number(s) % 2)) for s in submissions]


def calculator(expression: str) -> str:
    """Breaks on most expressions, instead of saying what is wrong with them.

    Args:
        expression: any text
    """
    if hashlib.sha256(expression.encode()).digest()[0] % 8:
        raise RuntimeError("the tool broke")
    return "1"


class Checking(PassingEnvironment):
    """A tool environment that runs its tool on what the policy said last, so that every episode meets the tool."""

    def __init__(self) -> None:
        super().__init__(ToolEnvironment(name="checking", tools=(tool_of(calculator),), limits=ToolLimits(calls=3)))

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator["CheckedEpisode"]:
        async with self._behind(task, seed, snapshot) as episode:
            yield CheckedEpisode(episode)


class CheckedEpisode(PassingEpisode):
    """See `Checking`."""

    async def step(self, action: Action) -> StepResult:
        arguments = json.dumps({"expression": action.text[:20]})
        await self._episode.call(ToolRequest(call_id="check", tool="calculator", arguments=arguments))
        return await self._episode.step(action)

    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        return await answer()


class Running(PassingEnvironment):
    """An environment with a Python interpreter that runs a program before and after what the policy says."""

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator["RunningEpisode"]:
        async with self._behind(task, seed, snapshot) as episode:
            yield RunningEpisode(episode)


class RunningEpisode(PassingEpisode):
    """See `Running`."""

    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        if asked.kind == "step":
            await self._run("after")
        given = await answer()
        if asked.kind == "begin":
            await self._run("before")
        return given

    async def _run(self, name: str) -> None:
        code = json.dumps({"code": "print(1 + 1)"})
        await self._episode.call(ToolRequest(call_id=name, tool="python", arguments=code))


def checking() -> Checking:
    """An environment."""
    return Checking()


def running() -> World:
    """The world of the interpreter, with a program in every episode."""
    world = interpreter(num_warm=4)
    return replace(world, environment=Running(world.environment))


def parity() -> Parity:
    """A verifier."""
    return Parity()


def generous() -> Generous:
    """A verifier."""
    return Generous()


def broken() -> Broken:
    """A verifier."""
    return Broken()


def useless() -> Useless:
    """A verifier."""
    return Useless()


def hung() -> Hung:
    """A verifier."""
    return Hung()


def _number(submission: Submission) -> int:
    text = "\n".join(p.text for p in submission.passages if p.kind in ("policy", "reasoning"))
    return hashlib.sha256(f"{submission.task.task_id}{text}".encode()).digest()[0]


def _verdict(verifier: Verifier, submission: Submission, value: float) -> Verdict:
    return Verdict(
        trajectory_id=submission.trajectory_id,
        verifier=verifier.name,
        revision=verifier.revision,
        scope=verifier.scope,
        outcome=value,
    )
