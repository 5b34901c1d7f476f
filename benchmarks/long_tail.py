"""Arithmetic whose calculator is slow in one of ten turns: a world with the long tail of real tools.

The delay of a slow turn is log-normal with a median of `median_s`; the slowest tenth is cut at a limit, as a tool's
time limit would. Delays are drawn from the episode's seed and the number of the call. Only training episodes are slow,
which is what is compared: demonstrations and held-out episodes, whose answers are the same, do not wait.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds import World, load_world
from rollwright.record import (
    Action,
    Environment,
    Episode,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    seed_of,
)

SLOW_SHARE = 0.1
SPREAD = 0.8
NINTH_DECILE = 1.2816
"""Of the standard normal: nine tenths of the delays are below it."""
TRAINING = "t"
"""What the name of a training episode, and so of each of its calls, begins with; others begin with d or e."""


def load(*, median_s: float = 1.0) -> World:
    """The world of arithmetic behind slow tools."""
    world = load_world("arithmetic", {})
    return replace(world, environment=SlowEnvironment(world.environment, median_s))


def delay_s(seed: int, call: int, median_s: float) -> float:
    """Seconds that the calculator takes in this call."""
    chance = random.Random(seed_of(seed, "delay", call))
    if chance.random() >= SLOW_SHARE:
        return 0.0
    longest = median_s * 2.718281828459045 ** (SPREAD * NINTH_DECILE)
    return min(median_s * chance.lognormvariate(0.0, SPREAD), longest)


@dataclass(frozen=True)
class SlowEnvironment:
    inner: Environment
    median_s: float

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def revision(self) -> str:
        return self.inner.revision

    @property
    def actors(self) -> Mapping[str, str]:
        return self.inner.actors

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return self.inner.demonstrate(task, seed)  # type: ignore[attr-defined] - arithmetic demonstrates

    def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AbstractAsyncContextManager[Episode]:
        return self._opened(self.inner.open(task, seed=seed, snapshot=snapshot), seed)

    @asynccontextmanager
    async def _opened(self, opening: AbstractAsyncContextManager[Episode], seed: int) -> AsyncGenerator[Episode]:
        async with opening as episode:
            yield SlowEpisode(episode, seed, self.median_s)


@dataclass
class SlowEpisode:
    inner: Episode
    seed: int
    median_s: float
    calls: int = 0

    @property
    def tools(self) -> Mapping[str, str]:
        return self.inner.tools

    async def begin(self) -> StepResult:
        return await self.inner.begin()

    async def call(self, request: ToolRequest) -> ToolResult:
        self.calls += 1
        if request.call_id.startswith(TRAINING):
            await asyncio.sleep(delay_s(seed_of(self.seed, request.call_id), self.calls, self.median_s))
        return await self.inner.call(request)

    async def step(self, action: Action) -> StepResult:
        return await self.inner.step(action)

    async def artifacts(self) -> Mapping[str, bytes]:
        return await self.inner.artifacts()

    async def snapshot(self) -> bytes:
        return await self.inner.snapshot()
