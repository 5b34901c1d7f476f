"""The schedule of a stored run, and an engine that keeps to it.

A run's tables hold what its events came to: which tokens were drawn under which version of the weights, and which
groups each step trained. So the schedule is read from them:

    segments ──► turn ──► (version, tokens), …          trained groups ──► step

`ScheduledEngine` draws each turn in the parts that were drawn then: a part waits until its version serves, and draws
its count. `drawn(version)` says when nothing of a version is left, so that the next may be published.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from rollwright.engines.passing import AskedEngine, PassingEngine, closing
from rollwright.record import (
    Chunk,
    Engine,
    EngineLostError,
    GenerationRequest,
    Swap,
    Trajectory,
    WeightsManifest,
    ids,
)

__all__ = ["Part", "Schedule", "ScheduledEngine"]

_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Tokens of one turn that were drawn under one version."""

    version: int
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is drawn under which version."""

    turns: Mapping[str, tuple[Part, ...]]
    """By request id, as the driver gives it: `TRAJECTORY/tTURN`."""

    @classmethod
    def of(cls, trajectories: Iterable[Trajectory]) -> "Schedule":
        """Read it from trajectories as they were recorded."""
        turns: dict[str, list[Part]] = {}
        for trajectory in trajectories:
            for segment in trajectory.segments:
                if segment.origin == "policy" and segment.policy_version is not None and segment.copied_from is None:
                    parts = turns.setdefault(f"{trajectory.trajectory_id}/t{segment.turn}", [])
                    if parts and parts[-1].version == segment.policy_version:
                        parts[-1] = replace(parts[-1], num_tokens=parts[-1].num_tokens + segment.num_tokens)
                    else:
                        parts.append(Part(version=segment.policy_version, num_tokens=segment.num_tokens))
        return cls(turns={name: tuple(parts) for name, parts in turns.items()})


class ScheduledEngine(PassingEngine):
    """An `Engine` that draws scheduled turns under their versions, and passes on what no schedule names."""

    def __init__(self, engine: Engine, schedule: Schedule, *, version: int) -> None:
        """Keep to `schedule`; `version` serves now."""
        super().__init__(engine)
        self._schedule = schedule
        self._version = version
        self._left = Counter(part.version for parts in schedule.turns.values() for part in parts)
        self._changed = asyncio.Condition()

    async def drawn(self, version: int) -> None:
        """Wait until every part of the schedule up to `version` is drawn."""
        async with self._changed:
            await self._changed.wait_for(lambda: not any(n for v, n in self._left.items() if v <= version))

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn, in its parts where it is scheduled."""
        parts = self._schedule.turns.get(request.request_id)
        return self._engine.generate(request) if parts is None else self._scheduled(request, parts)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve other weights, and let the parts of their version begin."""
        await self._engine.load_weights(weights, swap)
        async with self._changed:
            self._version = weights.version
            self._changed.notify_all()

    async def _through(self, asked: AskedEngine, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        return await answer()

    async def _scheduled(self, request: GenerationRequest, parts: tuple[Part, ...]) -> AsyncGenerator[Chunk]:
        drawn = ids([])
        for place, part in enumerate(parts):
            await self._serving(part.version, request.request_id)
            is_last = place == len(parts) - 1
            wanted = replace(
                request,
                request_id=request.request_id if place == 0 else f"{request.request_id}.{place}",
                token_ids=ids(np.concatenate([request.token_ids, drawn])),
                max_tokens=request.max_tokens - len(drawn) if is_last else part.num_tokens,
            )
            try:
                async with closing(self._engine.generate(wanted)) as chunks:
                    async for chunk in chunks:
                        drawn = ids(np.concatenate([drawn, chunk.token_ids]))
                        is_cut = not is_last and chunk.finish == "length"
                        yield replace(chunk, finish=None) if is_cut else chunk
                        if chunk.finish is not None and not is_last and not is_cut:
                            return  # It ended sooner than it did then; whoever compares the tokens says so.
            finally:
                async with self._changed:
                    self._left[part.version] -= 1
                    self._changed.notify_all()

    async def _serving(self, version: int, request_id: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._version >= version)
            if self._version > version:
                raise EngineLostError(
                    f"request {request_id} was drawn under version {version}, and version {self._version} serves "
                    "already: the replay has left its schedule"
                )
