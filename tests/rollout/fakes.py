"""An engine and an environment that tests script."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from rollwright.record import (
    Action,
    Capabilities,
    Chunk,
    Episode,
    GenerationRequest,
    Message,
    Observation,
    Sampling,
    ScoreRequest,
    Scores,
    StepResult,
    Swap,
    Task,
    ToolRequest,
    ToolResult,
    WeightsManifest,
    ids,
    logprobs,
)
from rollwright.rollout import EpisodeSpec, FixedClock, Limits, run_episode

__all__ = ["FakeEngine", "FakeEnvironment", "chunk", "drive", "observe", "spec_of", "whole"]

TASK = Task(task_id="fake/00", source="fake", revision="1", split="train", payload="{}")
Reply = Sequence[Chunk | Exception | float]
"""Chunks to give, an error to raise, or seconds to sleep before going on."""


def chunk(token_ids, version=0, finish=None, cache_version=None):
    """Tokens of one version; the log-probability of token i is -(i + 1) / 1000, so that it says whose it is."""
    tokens = ids(token_ids)
    return Chunk(
        token_ids=tokens,
        behavior_logprobs=logprobs(-(tokens.astype(np.float32) + 1) / 1000),
        policy_version=version,
        cache_version=version if cache_version is None else cache_version,
        tensors={},
        finish=finish,
    )


def whole(token_ids, version=0):
    """A turn that ended in its stop token."""
    return [chunk(token_ids, version, "stop_token")]


@dataclass
class FakeEngine:
    """Gives scripted replies in order of asking, and remembers everything asked of it."""

    replies: list[Reply] | Callable[[GenerationRequest, int], Reply]
    max_context_tokens: int = 100_000
    requests: list[GenerationRequest] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    open_requests: set[str] = field(default_factory=set)
    _cancel: dict[str, asyncio.Event] = field(default_factory=dict)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=True,
            swaps=frozenset({"drain"}),
            tensors=frozenset(),
            max_context_tokens=self.max_context_tokens,
            num_slots=8,
        )

    async def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        number = len(self.requests)
        self.requests.append(request)
        self.open_requests.add(request.request_id)
        cancel = self._cancel.setdefault(request.request_id, asyncio.Event())
        reply = self.replies(request, number) if callable(self.replies) else self.replies[number]
        try:
            for item in reply:
                match item:
                    case Exception():
                        raise item
                    case float() | int():
                        try:
                            async with asyncio.timeout(item):
                                await cancel.wait()
                            yield chunk([], finish="aborted")
                            return
                        except TimeoutError:
                            continue
                    case Chunk():
                        yield item
        finally:
            self.open_requests.discard(request.request_id)

    async def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)
        self._cancel.setdefault(request_id, asyncio.Event()).set()

    async def release(self, session: str) -> None:
        self.released.append(session)

    async def score(self, request: ScoreRequest) -> Scores:
        raise NotImplementedError

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        raise NotImplementedError

    async def pause(self) -> None:
        raise NotImplementedError

    async def resume(self) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        raise NotImplementedError


def observe(text=None, actor="agent", role="user", **more):
    """A step that opens one turn."""
    messages = () if text is None else (Message(role=role, text=text),)
    return StepResult(observations=(Observation(actor=actor, messages=messages, **more),))


@dataclass
class FakeEnvironment:
    """Gives scripted steps in order; a tool is a coroutine function of the request, or an error to raise."""

    steps: Sequence[StepResult | Exception]
    tools: Mapping[str, Callable[[ToolRequest], Awaitable[ToolResult]] | Exception] = field(default_factory=dict)
    actors: Mapping[str, str] = field(default_factory=lambda: {"agent": "policy"})
    left_with: Exception | None = None
    name: str = "fake"
    revision: str = "r1"
    actions: list[Action] = field(default_factory=list)
    asked: list[ToolRequest] = field(default_factory=list)
    opened: int = 0
    left: int = 0

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Episode]:
        self.opened += 1
        try:
            yield FakeEpisode(self)
        finally:
            self.left += 1
            if self.left_with is not None:
                raise self.left_with


@dataclass
class FakeEpisode:
    environment: FakeEnvironment
    taken: int = 0

    @property
    def tools(self) -> Mapping[str, str]:
        return {name: f'{{"type": "object", "description": "{name}"}}' for name in self.environment.tools}

    async def begin(self) -> StepResult:
        return self._next()

    async def call(self, request: ToolRequest) -> ToolResult:
        self.environment.asked.append(request)
        tool = self.environment.tools[request.tool]
        if isinstance(tool, Exception):
            raise tool
        return await tool(request)

    async def step(self, action: Action) -> StepResult:
        self.environment.actions.append(action)
        return self._next()

    def _next(self) -> StepResult:
        step = self.environment.steps[self.taken]
        self.taken += 1
        if isinstance(step, Exception):
            raise step
        return step

    async def artifacts(self) -> Mapping[str, bytes]:
        return {"log": b"done"}

    async def snapshot(self) -> bytes:
        raise NotImplementedError


def spec_of(limits=None, **more):
    """An attempt of group 7, slot 1."""
    spec = EpisodeSpec(
        purpose="train",
        stage="rl",
        group_id=7,
        slot=1,
        attempt=0,
        task=TASK,
        reset_seed=11,
        episode_seed=12,
        sampling=Sampling(),
        limits=limits or Limits(),
    )
    return replace(spec, **more)


def drive(renderer, environment, engine, spec=None, *, clock=None, interruption=None):
    """Run one episode to its end."""
    engines = engine if isinstance(engine, dict) else {"policy": engine}
    return asyncio.run(
        run_episode(
            spec or spec_of(),
            engines=engines,
            environment=environment,
            renderer=renderer,
            clock=clock or FixedClock(),
            interruption=interruption,
        )
    )
