"""The face of a served model: the `Engine` protocol over a link to its service."""

import asyncio
import base64
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.checks import check_request, check_swap
from rollwright.engines.errors import EngineError, EngineLostError, WeightsRefusedError
from rollwright.engines.sampling import score as score_logits
from rollwright.engines.served.link import Answer, Link, Pending
from rollwright.engines.served.pieces import chunk_of, until_stop_string
from rollwright.engines.served.process import ServiceProcess
from rollwright.engines.stops import DecodeText
from rollwright.record import (
    Capabilities,
    Chunk,
    GenerationRequest,
    Sampling,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
    frozen_array,
    logprobs,
    seed_of,
)

__all__ = ["FileOf", "ServedEngine", "ServedFacts", "file_of_location"]

FileOf = Callable[[WeightsManifest], AbstractContextManager[Path]]
"""The safetensors file of a publication, there for as long as the context lasts; called in a thread."""

_LEAST_TEMPERATURE = 0.01
"""vLLM draws at no lower one but 0, and would quietly take this."""
_CLOSE_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFacts:
    """What a request is checked against before it is sent."""

    policy: str
    vocab: int
    capabilities: Capabilities


def file_of_location(manifest: WeightsManifest) -> AbstractContextManager[Path]:
    """The file that a manifest's own location names.

    Raises:
        WeightsRefusedError: for a location of another kind.
    """
    kind, _, place = manifest.location.partition(":")
    if kind != "file":
        raise WeightsRefusedError(
            f"the weights of {manifest.policy} version {manifest.version} lie at {manifest.location!r}; a served "
            "engine reads a safetensors file, named as file:PATH."
        )
    return contextlib.nullcontext(Path(place))


class ServedEngine:
    """A model behind a service of its own process. Made by `open_vllm`.

    Draws are the service's own: their seed depends on the episode's, the context and the position, so that no two turns
    share their chance, but the same bits twice are not promised.
    """

    def __init__(
        self,
        process: ServiceProcess,
        link: Link,
        facts: ServedFacts,
        *,
        version: int,
        file_of: FileOf = file_of_location,
        decode_text: DecodeText | None = None,
    ) -> None:
        """Store what `open_vllm` made.

        Args:
            process: of the service.
            link: to it.
            facts: of its model.
            version: that it serves.
            file_of: where a publication's file is.
            decode_text: token ids to text, for stop strings; without it they are refused.
        """
        self._process = process
        self._link = link
        self._facts = facts
        self._version = version
        self._file_of = file_of
        self._decode_text = decode_text
        self._running: dict[str, Pending] = {}
        self._sessions: dict[str, str] = {}

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""
        return self._facts.capabilities

    @property
    def process(self) -> ServiceProcess:
        """The service."""
        return self._process

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn; the deadline counts from this call.

        Raises:
            EngineError: for a request that cannot be served; nothing is drawn.
            EngineLostError: when the service has ended, here or in mid-turn.
        """
        self._check(request)
        until = time.monotonic() + request.deadline_s
        if request.stop_strings:
            assert self._decode_text is not None
            stream = self._chunks(replace(request, chunk_tokens=1), until)
            return until_stop_string(stream, request, self._decode_text)
        return self._chunks(request, until)

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens under the weights that serve; in a pause, once no turn is under way.

        At other samplings than temperature 1 over all tokens the whole distribution is sent, and cut here.

        Raises:
            EngineError: for a request that cannot be served.
        """
        facts, length = self._facts, len(request.token_ids)
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
        self._check_ids(int(request.token_ids.min()), int(request.token_ids.max()), "a score request")
        is_plain = request.sampling == Sampling()
        top_k = request.top_k if is_plain else facts.vocab
        answer = await self._link.answer("score", prompt=_sent(request.token_ids), top_k=top_k)
        first = request.score_from - 1
        given = _received(answer["logprobs"], np.float32)[first:]
        best_ids = _received(answer["best_ids"], np.int32).reshape(length - 1, -1)[first:, :top_k]
        best = _received(answer["best_logprobs"], np.float32).reshape(length - 1, -1)[first:, :top_k]
        if not is_plain:
            given, best_ids, best = _cut(request, best_ids, best)
        tensors: dict[str, NDArray[np.generic]] = {}
        if request.top_k and len(given):
            tensors = {
                "topk_ids": frozen_array(best_ids, np.int32),
                "topk_logprobs": frozen_array(best, np.float32),
            }
        return Scores(logprobs=logprobs(given), policy_version=int(answer["version"]), tensors=tensors)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve new weights, once every tensor was found to be what the manifest says.

        `drain` finishes what runs first, and requests that come meanwhile wait. With `continue` running turns keep
        their caches, with `recompute` these are made again. No cache serves a later turn under newer weights.

        Raises:
            WeightsRefusedError: for a set that is incomplete, other than the manifest says, or not finite; the old
                version serves on.
            EngineLostError: when the service ended over it.
        """
        check_swap(swap, self.capabilities)
        found: list[str] = []
        if weights.policy != self._facts.policy:
            found.append(f"it is of policy {weights.policy!r}, this engine serves {self._facts.policy!r}")
        if weights.kind != "full":
            found.append(f"it is of kind {weights.kind!r}, this engine takes 'full'")
        if found:
            raise self._refusal(weights, "; ".join(found))
        tensors = [{"name": s.name, "dtype": s.dtype, "shape": s.shape, "sha256": s.sha256} for s in weights.tensors]
        loop = asyncio.get_running_loop()
        holder = self._file_of(weights)
        file = await loop.run_in_executor(None, holder.__enter__)
        try:
            told = {"file": str(file.absolute()), "version": weights.version, "swap": swap, "tensors": tensors}
            await self._link.answer("load", **told)
        except EngineError as error:
            raise self._refusal(weights, str(error)) from error
        finally:
            await loop.run_in_executor(None, holder.__exit__, None, None, None)
        self._version = weights.version

    async def cancel(self, request_id: str) -> None:
        """End a request; what was drawn comes back with finish `aborted`."""
        if pending := self._running.get(request_id):
            with contextlib.suppress(EngineLostError):
                await self._link.answer("cancel", turn=pending.number)

    async def release(self, session: str) -> None:
        """End what a session draws; its cached prefix goes when room is needed."""
        if request_id := self._sessions.get(session):
            await self.cancel(request_id)

    async def pause(self) -> None:
        """Draw nothing until `resume`; deadlines go on."""
        with contextlib.suppress(EngineLostError):
            await self._link.answer("pause")

    async def resume(self) -> None:
        """Go on after `pause`."""
        with contextlib.suppress(EngineLostError):
            await self._link.answer("resume")

    async def health(self) -> Answer:
        """What the service says of itself: version, running, paused.

        Raises:
            EngineLostError: when it has ended.
        """
        return await self._link.answer("health")

    async def close(self) -> None:
        """End all requests and the service."""
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._link.answer("close")
        except (EngineLostError, TimeoutError):
            pass
        await asyncio.to_thread(self._link.end, "the engine is closed")
        await asyncio.to_thread(self._process.stop)

    async def _chunks(self, request: GenerationRequest, until: float) -> AsyncIterator[Chunk]:
        if request.request_id in self._running:
            raise EngineError(f"request {request.request_id} is running already; request ids are used once.")
        if request.session in self._sessions:
            other = self._sessions[request.session]
            raise EngineError(
                f"session {request.session} is drawing request {other}; a context draws one turn at a time."
            )
        room = min(request.max_tokens, self.capabilities.max_context_tokens - len(request.token_ids))
        if room == 0:
            self._check_lives()
            yield chunk_of([], [], self._version, self._version, "length")
            return
        sampling = request.sampling
        pending = self._link.ask(
            "generate",
            prompt=_sent(request.token_ids),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            # Another one for each turn of an episode: the service begins its draws anew with each request.
            seed=seed_of(request.seed, request.context, len(request.token_ids)),
            stop=sorted(request.stop_token_ids),
            max_tokens=room,
            chunk_tokens=request.chunk_tokens,
            deadline_s=until - time.monotonic(),
        )
        self._running[request.request_id] = pending
        self._sessions[request.session] = request.request_id
        has_ended = False
        try:
            while not has_ended:
                answer = await self._next(pending, request)
                has_ended = answer["finish"] is not None
                if has_ended:
                    self._leave(request, pending)
                yield chunk_of(
                    _received(answer["tokens"], np.int32),
                    _received(answer["logprobs"], np.float32),
                    int(answer["version"]),
                    int(answer["cache"]),
                    answer["finish"],
                )
        finally:
            if not has_ended:
                self._leave(request, pending)
                self._drop(pending)

    async def _next(self, pending: Pending, request: GenerationRequest) -> Answer:
        try:
            return await pending.next()
        except EngineLostError as error:
            raise EngineLostError(f"request {request.request_id}: {error}") from error

    def _leave(self, request: GenerationRequest, pending: Pending) -> None:
        self._link.forget(pending)
        self._running.pop(request.request_id, None)
        self._sessions.pop(request.session, None)

    def _drop(self, pending: Pending) -> None:
        """End a turn that nobody reads any more; nothing is waited for."""
        with contextlib.suppress(EngineLostError, RuntimeError):
            self._link.forget(self._link.ask("cancel", turn=pending.number))

    def _check(self, request: GenerationRequest) -> None:
        check_request(request, self.capabilities, self._facts.policy)
        name, sampling = f"request {request.request_id}", request.sampling
        if 0 < sampling.temperature < _LEAST_TEMPERATURE:
            raise EngineError(
                f"{name}: temperature {sampling.temperature}; this engine draws at 0 (greedy) or at "
                f"{_LEAST_TEMPERATURE} and above."
            )
        if sampling.min_p > 0 and sampling.top_p < 1:
            raise EngineError(
                f"{name}: min_p={sampling.min_p} with top_p={sampling.top_p}; this engine cuts by min_p first, so "
                "top_p would leave another set than elsewhere. Ask for one of the two."
            )
        if request.stop_strings and self._decode_text is None:
            raise EngineError(
                f"{name}: stop strings {request.stop_strings} need text; give the engine a decode_text, or stop by "
                "token ids."
            )
        if "" in request.stop_strings:
            raise EngineError(f"{name}: an empty stop string would stop at once; leave it out.")
        self._check_ids(int(request.token_ids.min()), int(request.token_ids.max()), name)
        if request.stop_token_ids:
            self._check_ids(min(request.stop_token_ids), max(request.stop_token_ids), name)

    def _check_ids(self, least: int, most: int, name: str) -> None:
        if not 0 <= least <= most < self._facts.vocab:
            raise EngineError(f"{name}: token ids from {least} to {most}; this model has 0 to {self._facts.vocab - 1}.")

    def _check_lives(self) -> None:
        if self._link.death is not None:
            raise EngineLostError(self._link.death)

    def _refusal(self, weights: WeightsManifest, why: str) -> WeightsRefusedError:
        return WeightsRefusedError(
            f"the weights of {weights.policy} version {weights.version} were refused as a whole ({why}). The old "
            "version serves on; publish a complete set of the model's own names."
        )


def _cut(
    request: ScoreRequest, best_ids: NDArray[np.generic], best: NDArray[np.generic]
) -> tuple[NDArray[np.float64], NDArray[np.generic], NDArray[np.generic]]:
    """From the whole distribution at temperature 1 to scores under a request's sampling."""
    logits = np.empty(best.shape, dtype=np.float32)
    np.put_along_axis(logits, best_ids.astype(np.int64), best, axis=1)
    found = score_logits(logits, request.token_ids[request.score_from :], request.sampling, request.top_k)
    return found.logprobs, found.best_ids, found.best_logprobs


def _sent(values: NDArray[np.int32]) -> str:
    return base64.b64encode(np.asarray(values, dtype=np.int32).tobytes()).decode()


def _received(text: str, dtype: type[np.generic]) -> NDArray[np.generic]:
    return np.frombuffer(base64.b64decode(text), dtype=dtype)
