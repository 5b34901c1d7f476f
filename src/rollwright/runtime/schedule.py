"""The schedule of a stored run, and an engine that keeps to it.

A run's tables hold what its events came to: which tokens were drawn under which version of the weights, and which
groups each step trained. So the schedule is read from them:

    segments ──► turn ──► (version, tokens), …          trained groups ──► step

`ScheduledEngine` draws each turn in the parts that were drawn then: a part waits until its version serves, and draws
its count. `drawn(version)` says when nothing of a version is left, so that the next may be published.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rollwright.record import (
    Capabilities,
    Chunk,
    Engine,
    EngineLostError,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Swap,
    Trajectory,
    WeightsManifest,
    ids,
)

__all__ = ["Part", "Schedule", "ScheduledEngine"]


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


class ScheduledEngine:
    """An `Engine` that draws scheduled turns under their versions, and passes on what no schedule names."""

    def __init__(self, inner: Engine, schedule: Schedule, *, version: int) -> None:
        """Keep to `schedule`; `version` serves now."""
        self._inner = inner
        self._schedule = schedule
        self._version = version
        self._left = Counter(part.version for parts in schedule.turns.values() for part in parts)
        self._changed = asyncio.Condition()

    @property
    def capabilities(self) -> Capabilities:
        """Of the engine."""
        return self._inner.capabilities

    async def drawn(self, version: int) -> None:
        """Wait until every part of the schedule up to `version` is drawn."""
        async with self._changed:
            await self._changed.wait_for(lambda: not any(n for v, n in self._left.items() if v <= version))

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn, in its parts where it is scheduled."""
        parts = self._schedule.turns.get(request.request_id)
        return self._inner.generate(request) if parts is None else self._scheduled(request, parts)

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens."""
        return await self._inner.score(request)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve other weights, and let the parts of their version begin."""
        await self._inner.load_weights(weights, swap)
        async with self._changed:
            self._version = weights.version
            self._changed.notify_all()

    async def cancel(self, request_id: str) -> None:
        """End a request."""
        await self._inner.cancel(request_id)

    async def release(self, session: str) -> None:
        """Forget a session."""
        await self._inner.release(session)

    async def pause(self) -> None:
        """Draw nothing until `resume`."""
        await self._inner.pause()

    async def resume(self) -> None:
        """Go on."""
        await self._inner.resume()

    async def close(self) -> None:
        """End all requests."""
        await self._inner.close()

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
            stream = self._inner.generate(wanted)
            try:
                async for chunk in stream:
                    drawn = ids(np.concatenate([drawn, chunk.token_ids]))
                    is_cut = not is_last and chunk.finish == "length"
                    yield replace(chunk, finish=None) if is_cut else chunk
                    if chunk.finish is not None and not is_last and not is_cut:
                        return  # It ended sooner than it did then; whoever compares the tokens says so.
            finally:
                if isinstance(stream, AsyncGenerator):
                    await stream.aclose()
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
