"""An engine without a model: its replies are given, and its accidents are ordered by constructor arguments."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from rollwright.engines.checks import check_request, check_swap
from rollwright.engines.errors import EngineError, WeightsRefusedError
from rollwright.record import (
    Capabilities,
    Chunk,
    EngineLostError,
    Finish,
    GenerationRequest,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
    ids,
    logprobs,
)

__all__ = ["Reply", "ReplyFn", "ScoreFn", "ScriptedEngine", "replies_in_order"]

SCRIPTED_LOGPROB = -0.5
"""Of every token whose reply names none."""
TOKENS_A_TURN = 16
"""Drawn before other tasks have their turn, as an engine decodes some steps between two looks at what is asked."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reply:
    """What is drawn for one request, and what happens on the way."""

    token_ids: ArrayLike
    """Drawn in order until a stop token, `max_tokens` or their end."""
    behavior_logprobs: ArrayLike | None = None
    """Nats, one per token; absent: −0.5 each."""
    ending: Finish = "stop_string"
    """The finish when neither a stop token nor `max_tokens` came before the end of the reply."""
    delay_s: float = 0.0
    """Waited before each token."""
    versions: Mapping[int, int] = field(default_factory=dict[int, int])
    """Number of drawn tokens to the policy version from there on: new weights in mid-turn."""
    lost_after: int | None = None
    """The engine is lost to this request after so many tokens; None: it is not."""


ReplyFn = Callable[[GenerationRequest], Reply | Sequence[int]]
ScoreFn = Callable[[ScoreRequest], ArrayLike]


def replies_in_order(replies: Sequence[Reply | Sequence[int]]) -> ReplyFn:
    """The next reply for each request, whatever it asks; an `EngineError` past the last."""
    rest = iter(replies)

    def reply(request: GenerationRequest) -> Reply | Sequence[int]:
        found = next(rest, None)
        if found is None:
            raise EngineError(f"request {request.request_id}: all {len(replies)} scripted replies have been given.")
        return found

    return reply


@dataclass(slots=True, kw_only=True)
class _Running:
    """A request in flight."""

    request: GenerationRequest
    version: int
    """Of the weights that draw its next token."""
    cache_version: int
    num_drawn: int = 0
    is_drawing: bool = False
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


class ScriptedEngine:
    """Replies by a function of the request. It serves one policy and takes new weights in all three ways.

    It keeps no cache, and says of a turn what an engine that keeps one would: under `continue` its cache stays of the
    weights that it began with, under `recompute` it becomes of the new ones and its tokens are counted again. A later
    turn begins with a cache of the weights that serve then.
    """

    def __init__(
        self,
        replies: ReplyFn,
        *,
        policy: str = "policy",
        version: int = 0,
        max_context_tokens: int = 4096,
        scores: ScoreFn | None = None,
        refused_versions: frozenset[int] = frozenset(),
    ) -> None:
        """Store the script.

        Args:
            replies: the reply to a request, asked once for each when it is taken up.
            policy: the only one served.
            version: of the weights it starts with.
            max_context_tokens: tokens of a context with its drawn ones.
            scores: log-probabilities for a score request; absent: −0.5 each.
            refused_versions: publications that fail, as one with a wrong digest would.
        """
        self._replies = replies
        self._policy = policy
        self._version = version
        self._max_context_tokens = max_context_tokens
        self._scores = scores
        self.refused = refused_versions
        """Versions that are refused now."""
        self._running: dict[str, _Running] = {}
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._may_start = asyncio.Event()
        self._may_start.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._num_drawing = 0
        self._is_closed = False
        self.released: list[str] = []
        """Sessions given back, in order."""
        self.requests: list[GenerationRequest] = []
        """What was asked, in order."""
        self.refilled_tokens = 0
        """Context tokens of running turns that `recompute` had to be computed again."""
        self._loading = asyncio.Lock()

    @property
    def capabilities(self) -> Capabilities:
        """Deterministic, with every way of taking new weights."""
        return Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=True,
            swaps=frozenset[Swap](["drain", "continue", "recompute"]),
            tensors=frozenset(),
            max_context_tokens=self._max_context_tokens,
            num_slots=2**20,
        )

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Give the scripted reply.

        Raises:
            EngineError: for a request that cannot be served; nothing is drawn.
            EngineLostError: after `close`.
        """
        self._check_open()
        check_request(request, self.capabilities, self._policy)
        if request.request_id in self._running:
            raise EngineError(f"request {request.request_id} is running already; request ids are used once.")
        self.requests.append(request)
        running = _Running(request=request, version=self._version, cache_version=self._version)
        self._running[request.request_id] = running
        deadline = asyncio.get_running_loop().time() + request.deadline_s
        return self._serve(request, running, deadline)

    async def score(self, request: ScoreRequest) -> Scores:
        """The scripted log-probabilities."""
        self._check_open()
        if request.policy != self._policy:
            raise EngineError(f"policy {request.policy!r} is not served here; this engine serves {self._policy!r}.")
        count = len(request.token_ids) - request.score_from
        values = np.full(count, SCRIPTED_LOGPROB) if self._scores is None else self._scores(request)
        return Scores(logprobs=logprobs(values), policy_version=self._version, tensors={})

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve the new version: `drain` once nothing runs, else from the next token of every running turn on.

        Loads are taken in the order in which they are asked for.

        Raises:
            WeightsRefusedError: for another policy or a version that is scripted to fail.
        """
        self._check_open()
        check_swap(swap, self.capabilities)
        if weights.policy != self._policy or weights.version in self.refused:
            raise WeightsRefusedError(
                f"the weights of {weights.policy} version {weights.version} were refused; version {self._version} "
                "serves on."
            )
        async with self._loading:
            if swap == "drain":
                await self._drain()
            self._version = weights.version
            for running in self._running.values():
                self._move(running, swap)

    async def cancel(self, request_id: str) -> None:
        """End a request; what was drawn comes back."""
        if running := self._running.get(request_id):
            running.cancelled.set()

    async def release(self, session: str) -> None:
        """Note the session."""
        self.released.append(session)

    async def pause(self) -> None:
        """Draw nothing until `resume`."""
        self._may_run.clear()

    async def resume(self) -> None:
        """Go on after `pause`."""
        self._may_run.set()

    async def close(self) -> None:
        """End all requests and refuse further ones."""
        self._is_closed = True
        for running in self._running.values():
            running.cancelled.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise EngineLostError("the scripted engine is closed")

    async def _drain(self) -> None:
        """Wait until nothing is being drawn; meanwhile nothing begins."""
        self._may_start.clear()
        try:
            await self._idle.wait()
        finally:
            self._may_start.set()

    def _move(self, running: _Running, swap: Swap) -> None:
        """What the version that now serves is to a request in flight."""
        running.version = self._version
        if not running.is_drawing:
            running.cache_version = self._version
        elif swap == "recompute":
            running.cache_version = self._version
            self.refilled_tokens += len(running.request.token_ids) + running.num_drawn

    async def _serve(self, request: GenerationRequest, running: _Running, deadline: float) -> AsyncIterator[Chunk]:
        try:
            if not await self._wait(self._may_start, running, deadline):
                yield self._chunk([], [], self._version, "aborted", self._version)
                return
            self._num_drawing += 1
            self._idle.clear()
            try:
                async for chunk in self._draw(request, running, deadline):
                    yield chunk
            finally:
                self._num_drawing -= 1
                if not self._num_drawing:
                    self._idle.set()
        finally:
            del self._running[request.request_id]

    async def _draw(self, request: GenerationRequest, running: _Running, deadline: float) -> AsyncIterator[Chunk]:
        reply = _as_reply(self._replies(request))
        tokens = [int(token) for token in np.asarray(reply.token_ids)]
        given = reply.behavior_logprobs
        scores = np.full(len(tokens), SCRIPTED_LOGPROB) if given is None else np.asarray(given, dtype=np.float32)
        limit = min(request.max_tokens, self._max_context_tokens - len(request.token_ids))
        running.version = running.cache_version = version = cache = self._version
        running.is_drawing = True
        sent, count = 0, 0
        while True:
            finish = _finish_at(count, tokens, limit, request.stop_token_ids)
            if finish is not None:
                break
            if reply.lost_after == count:
                raise EngineLostError(f"lost under request {request.request_id} after {count} tokens, as scripted")
            if count == len(tokens):
                finish = reply.ending
                break
            if (reply.delay_s or count % TOKENS_A_TURN == 0) and not await self._pass(reply.delay_s, running, deadline):
                finish = "aborted"
                break
            if count in reply.versions:
                running.version = running.cache_version = reply.versions[count]
            is_new = count in reply.versions or (running.version, running.cache_version) != (version, cache)
            if count > sent and (is_new or 0 < request.chunk_tokens <= count - sent):
                yield self._chunk(tokens[sent:count], scores[sent:count], version, None, cache)
                sent = count
            version, cache = running.version, running.cache_version
            count += 1
            running.num_drawn = count
        running.is_drawing = False
        self._version = max(self._version, version)
        yield self._chunk(tokens[sent:count], scores[sent:count], version, finish, cache)

    async def _pass(self, delay_s: float, running: _Running, deadline: float) -> bool:
        """Let time go by before a token; False when the request has to end."""
        if not await self._wait(self._may_run, running, deadline):
            return False
        left = deadline - asyncio.get_running_loop().time()
        if delay_s == 0:
            await asyncio.sleep(0)
            return left > 0 and not running.cancelled.is_set()
        try:
            await asyncio.wait_for(running.cancelled.wait(), timeout=max(0.0, min(delay_s, left)))
        except TimeoutError:
            return left > delay_s
        return False

    async def _wait(self, event: asyncio.Event, running: _Running, deadline: float) -> bool:
        """Wait for an event; False when the request was cancelled or its deadline came first."""
        while not event.is_set() and not running.cancelled.is_set():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            waits = [asyncio.ensure_future(event.wait()), asyncio.ensure_future(running.cancelled.wait())]
            try:
                await asyncio.wait(waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        return not running.cancelled.is_set()

    def _chunk(
        self, tokens: ArrayLike, scores: ArrayLike, version: int, finish: Finish | None, cache_version: int
    ) -> Chunk:
        return Chunk(
            token_ids=ids(tokens),
            behavior_logprobs=logprobs(scores),
            policy_version=version,
            cache_version=cache_version,
            tensors={},
            finish=finish,
        )


def _as_reply(reply: Reply | Sequence[int]) -> Reply:
    return reply if isinstance(reply, Reply) else Reply(token_ids=reply)


def _finish_at(count: int, tokens: Sequence[int], limit: int, stops: frozenset[int]) -> Finish | None:
    """Why a turn ends after its first tokens; None where it goes on."""
    if count and tokens[count - 1] in stops:
        return "stop_token"
    return "length" if count >= limit else None
