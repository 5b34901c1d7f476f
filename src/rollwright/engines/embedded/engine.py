"""The asyncio face of the embedded engine; all work is on its decode thread."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from rollwright.engines.checks import check_request, check_swap
from rollwright.engines.embedded.caches import EngineCounters
from rollwright.engines.embedded.commands import (
    Cancel,
    Close,
    Drop,
    Generate,
    Load,
    Pause,
    Release,
    Resume,
    Score,
)
from rollwright.engines.embedded.thread import DecodeThread
from rollwright.engines.embedded.turns import Sink, Turn
from rollwright.engines.errors import EngineError
from rollwright.record import (
    Capabilities,
    Chunk,
    EngineLostError,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
)

__all__ = ["EmbeddedEngine", "EngineFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFacts:
    """What a request is checked against before it is handed over."""

    policy: str
    vocab: int
    has_text: bool
    """Whether stop strings can be found."""
    capabilities: Capabilities


class EmbeddedEngine:
    """A causal LM on this machine, behind the `Engine` protocol. Made by `open_engine` or `load_engine`."""

    def __init__(self, thread: DecodeThread, facts: EngineFacts, counters: EngineCounters) -> None:
        """Store a started thread and what is known of its model."""
        self._thread = thread
        self._facts = facts
        self._counters = counters

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""
        return self._facts.capabilities

    @property
    def counters(self) -> EngineCounters:
        """What it has done so far: a copy."""
        return replace(self._counters)

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn; the deadline counts from this call.

        Raises:
            EngineError: for a request that cannot be served; nothing is drawn.
            EngineLostError: when the engine has ended, here or in mid-turn.
        """
        self._check(request)
        deadline = time.monotonic() + request.deadline_s
        return self._chunks(request, deadline)

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens under the weights that serve.

        Raises:
            EngineError: for a request that cannot be served.
        """
        facts = self._facts
        length = len(request.token_ids)
        if request.policy != facts.policy:
            raise EngineError(f"policy {request.policy!r} is not served here; this engine serves {facts.policy!r}.")
        if not 1 <= request.score_from <= length <= facts.capabilities.max_context_tokens:
            raise EngineError(
                f"score_from={request.score_from} of {length} tokens; allowed is 1 to {length}, and at most "
                f"{facts.capabilities.max_context_tokens} tokens. The first token has none: nothing stands before it."
            )
        if request.tensors or request.sampling.processors:
            raise EngineError("scores over a given support, routing or processors are not made by this engine.")
        if not 0 <= request.top_k <= facts.vocab:
            raise EngineError(f"top_k={request.top_k} scores are asked for; allowed is 0 to {facts.vocab}.")
        self._check_ids(request.token_ids.min(), request.token_ids.max(), "a score request")
        command = Score(request=request)
        self._thread.post(command)
        return await asyncio.wrap_future(command.done)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve new weights.

        `drain` finishes what runs first, and requests that come meanwhile wait. The other two serve them between two
        decode steps: a chunk of every running turn ends there, and the next one has the new version. With `continue` a
        turn goes on with the cache that it has, and `cache_version` keeps saying whose that is. With `recompute` the
        context of each running turn is computed again before its next token, so `cache_version` is the new version.

        No cache serves a later turn under newer weights, in any of the three: an open session's context is computed
        again with its next turn, and a prefix of older weights is never copied. So `continue` mixes weights within one
        turn only, and the age of a cache is bounded by a turn, not by an episode. What is computed again is counted in
        `counters.refilled_tokens`.

        Args:
            weights: complete; not changed elsewhere until this returns.
            swap: one of `capabilities.swaps`.

        Raises:
            WeightsRefusedError: for a set that is incomplete, other than the manifest says, or not finite; the old
                version serves on.
        """
        check_swap(swap, self.capabilities)
        command = Load(manifest=weights, swap=swap)
        self._thread.post(command)
        await asyncio.wrap_future(command.done)

    async def cancel(self, request_id: str) -> None:
        """End a request; what was drawn comes back with finish `aborted`."""
        await self._tell(Cancel(request_id=request_id))

    async def release(self, session: str) -> None:
        """Forget the cache of a session before anything that is asked of this engine later; nothing is waited for."""
        with contextlib.suppress(EngineLostError):
            self._thread.post(Release(session=session))

    async def pause(self) -> None:
        """Draw nothing until `resume`; deadlines go on, and weights that `drain` wait for what was being drawn."""
        await self._tell(Pause())

    async def resume(self) -> None:
        """Go on after `pause`."""
        await self._tell(Resume())

    async def close(self) -> None:
        """End all requests and the thread."""
        await self._tell(Close())
        await asyncio.to_thread(self._thread.join)

    async def _tell(self, command: Cancel | Pause | Resume | Close) -> None:
        """Hand over a command whose effect is there anyway once the engine has ended."""
        try:
            self._thread.post(command)
        except EngineLostError:
            return
        await asyncio.wrap_future(command.done)

    async def _chunks(self, request: GenerationRequest, deadline: float) -> AsyncIterator[Chunk]:
        sink = Sink(asyncio.get_running_loop())
        turn = Turn(request=request, deadline=deadline, sink=sink)
        self._thread.post(Generate(turn=turn))
        has_ended = False
        try:
            while not has_ended:
                event = await sink.queue.get()
                has_ended = isinstance(event, Exception) or event.finish is not None
                if isinstance(event, Exception):
                    raise event
                yield event
        finally:
            if not has_ended:
                with contextlib.suppress(EngineLostError):
                    self._thread.post(Drop(turn=turn))

    def _check(self, request: GenerationRequest) -> None:
        check_request(request, self.capabilities, self._facts.policy)
        if request.stop_strings and not self._facts.has_text:
            raise EngineError(
                f"request {request.request_id}: stop strings {request.stop_strings} need text; give the engine a "
                "decode_text, or stop by token ids."
            )
        if "" in request.stop_strings:
            raise EngineError(f"request {request.request_id}: an empty stop string would stop at once; leave it out.")
        self._check_ids(request.token_ids.min(), request.token_ids.max(), f"request {request.request_id}")
        if request.stop_token_ids:
            self._check_ids(min(request.stop_token_ids), max(request.stop_token_ids), f"request {request.request_id}")

    def _check_ids(self, least: int, most: int, name: str) -> None:
        if not 0 <= least <= most < self._facts.vocab:
            raise EngineError(f"{name}: token ids from {least} to {most}; this model has 0 to {self._facts.vocab - 1}.")
