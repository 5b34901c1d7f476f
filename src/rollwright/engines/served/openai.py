"""A server that speaks OpenAI's completions, as vLLM's own does: token ids in, token ids and log-probabilities out.

It serves one set of weights and takes no others, so it evaluates and judges, and no run trains by it. What it cannot
give is found at the start by asking for it, and refused by name.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import numpy as np
from numpy.typing import NDArray

from rollwright.engines.checks import check_request, check_swap
from rollwright.engines.errors import EngineError, EngineLostError
from rollwright.engines.served.pieces import chunk_of, until_stop_string
from rollwright.engines.stops import DecodeText
from rollwright.record import (
    Capabilities,
    Chunk,
    Finish,
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

__all__ = ["OpenAiEngine", "OpenAiSettings", "open_openai"]

_FINISHES: Mapping[str, Finish] = {"stop": "stop_token", "length": "length", "abort": "aborted"}
_OK, _FAILED = 200, 500
_ZERO = 1e-4
"""Nats from 0 that the one token which is left may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAiSettings:
    """Which server, and what is known of its model."""

    address: str
    """`http://HOST:PORT`."""
    vocab: int
    model: str | None = None
    """As the server calls it; None: the only one."""
    key: str | None = None
    """Sent as a bearer token."""
    policy: str = "policy"
    version: int = 0
    num_slots: int = 64
    max_context_tokens: int = 1024
    start_s: float = 60.0


@dataclass(slots=True, eq=False)
class _Running:
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    session: str = ""


class OpenAiEngine:
    """The `Engine` protocol over completions. Made by `open_openai`."""

    def __init__(self, settings: OpenAiSettings, model: str, decode_text: DecodeText | None = None) -> None:
        """Store what `open_openai` found."""
        self._settings = settings
        self._model = model
        self._decode_text = decode_text
        self._running: dict[str, _Running] = {}
        self._may_run = asyncio.Event()
        self._may_run.set()
        self._is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        """It takes no weights."""
        return Capabilities(
            has_sampled_distribution=True,
            has_version_per_token=True,
            is_deterministic=False,
            swaps=frozenset[Swap](),
            tensors=frozenset(),
            max_context_tokens=self._settings.max_context_tokens,
            num_slots=self._settings.num_slots,
        )

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn; the deadline counts from this call.

        Raises:
            EngineError: for a request that cannot be served; nothing is drawn.
            EngineLostError: when the server does not answer, here or in mid-turn.
        """
        self._check_open()
        check_request(request, self.capabilities, self._settings.policy)
        _check_sampling(request)
        until = time.monotonic() + request.deadline_s
        stream = self._chunks(request, until)
        if not request.stop_strings:
            return stream
        if self._decode_text is None or "" in request.stop_strings:
            raise EngineError(
                f"request {request.request_id}: stop strings {request.stop_strings} need text, and none may be empty; "
                "give the engine a decode_text, or stop by token ids."
            )
        return until_stop_string(stream, request, self._decode_text)

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens at temperature 1, by the server's `prompt_logprobs`.

        Raises:
            EngineError: for another sampling, or where the server gives none.
        """
        self._check_open()
        if request.sampling != Sampling() or request.tensors:
            raise EngineError("this server scores at temperature 1 over all tokens alone.")
        body = self._body(request.token_ids, max_tokens=1, temperature=0.0, prompt_logprobs=request.top_k)
        async with self._client() as client:
            given = _answer(await client.post("/v1/completions", json=body))["choices"][0].get("prompt_logprobs")
        if not given:
            raise EngineError("this server gives no `prompt_logprobs`: it cannot score.")
        rows = [
            {int(token): float(one["logprob"]) for token, one in row.items()} for row in given[request.score_from :]
        ]
        tokens = request.token_ids[request.score_from :].tolist()
        found = [row[token] for row, token in zip(rows, tokens, strict=True)]
        tensors: dict[str, NDArray[np.generic]] = {}
        if request.top_k and rows:
            best = [sorted(row.items(), key=lambda one: (-one[1], one[0]))[: request.top_k] for row in rows]
            tensors = {
                "topk_ids": frozen_array([[token for token, _ in row] for row in best], np.int32),
                "topk_logprobs": frozen_array([[value for _, value in row] for row in best], np.float32),
            }
        return Scores(logprobs=logprobs(found), policy_version=self._settings.version, tensors=tensors)

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Refuse: a server of completions takes no weights."""
        del weights
        check_swap(swap, self.capabilities)

    async def cancel(self, request_id: str) -> None:
        """End a request; what came of it so far is what was drawn."""
        if running := self._running.get(request_id):
            running.cancelled.set()

    async def release(self, session: str) -> None:
        """End what a session draws."""
        for running in self._running.values():
            if running.session == session:
                running.cancelled.set()

    async def pause(self) -> None:
        """Begin nothing until `resume`; what the server draws already comes on."""
        self._may_run.clear()

    async def resume(self) -> None:
        """Go on after `pause`."""
        self._may_run.set()

    async def close(self) -> None:
        """End all requests; the server is another's and goes on."""
        self._is_closed = True
        for running in self._running.values():
            running.cancelled.set()

    def _check_open(self) -> None:
        if self._is_closed:
            raise EngineLostError("the engine is closed")

    async def _chunks(self, request: GenerationRequest, until: float) -> AsyncGenerator[Chunk]:
        version = self._settings.version
        if request.request_id in self._running:
            raise EngineError(f"request {request.request_id} is running already; request ids are used once.")
        room = min(request.max_tokens, self._settings.max_context_tokens - len(request.token_ids))
        if room == 0:
            yield chunk_of([], [], version, version, "length")
            return
        running = self._running[request.request_id] = _Running(session=request.session)
        tokens: list[int] = []
        scores: list[float] = []
        finish: Finish = "aborted"
        try:
            async with contextlib.aclosing(self._until(running, until, self._events(request, room))) as events:
                async for event in events:
                    tokens += event["token_ids"]
                    scores += _scores_of(event, request)
                    if event.get("finish_reason") is not None:
                        finish = _FINISHES[event["finish_reason"]]
                        break
                    while 0 < request.chunk_tokens <= len(tokens):
                        size = request.chunk_tokens
                        yield chunk_of(tokens[:size], scores[:size], version, version, None)
                        tokens, scores = tokens[size:], scores[size:]
            yield chunk_of(tokens, scores, version, version, finish)
        finally:
            del self._running[request.request_id]

    async def _until(
        self, running: _Running, until: float, events: AsyncGenerator[Mapping[str, Any]]
    ) -> AsyncGenerator[Mapping[str, Any]]:
        """Events until they end, the request is cancelled, or its deadline comes."""
        cancelled = asyncio.ensure_future(running.cancelled.wait())
        async with contextlib.aclosing(events):
            try:
                while not running.cancelled.is_set():
                    coming = asyncio.ensure_future(anext(events, None))
                    left = max(0.0, until - time.monotonic())
                    try:
                        await asyncio.wait({coming, cancelled}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                    finally:  # Also where the caller is cancelled: a generator that still runs cannot be closed.
                        is_here = coming.done()
                        if not is_here:
                            coming.cancel()
                            await asyncio.wait({coming})
                    event = coming.result() if is_here else None
                    if event is None:
                        return
                    yield event
            finally:
                cancelled.cancel()

    async def _events(self, request: GenerationRequest, room: int) -> AsyncGenerator[Mapping[str, Any]]:
        await self._may_run.wait()
        sampling = request.sampling
        body = self._body(
            request.token_ids,
            max_tokens=room,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            seed=seed_of(request.seed, request.context, len(request.token_ids)),
            stop_token_ids=sorted(request.stop_token_ids),
            stream=True,
        )
        try:
            async with self._client() as client, client.stream("POST", "/v1/completions", json=body) as response:
                if response.status_code != _OK:
                    await response.aread()
                    _answer(response)
                async for line in response.aiter_lines():
                    text = line.removeprefix("data:").strip()
                    if text == "[DONE]":
                        return
                    if text:
                        yield _choice(json.loads(text))
                raise EngineLostError(f"request {request.request_id}: {self._settings.address} ended in mid-turn")
        except httpx2.HTTPError as error:
            raise EngineLostError(f"request {request.request_id}: {self._settings.address}: {error}") from error

    def _client(self) -> httpx2.AsyncClient:
        settings = self._settings
        return httpx2.AsyncClient(
            base_url=settings.address,
            headers=_headers(settings),
            verify=_verify(settings),
            timeout=None,
            trust_env=False,
        )

    def _body(self, prompt: NDArray[np.int32], **asked: object) -> Mapping[str, object]:
        return _body(self._model, prompt.tolist(), **asked)


def open_openai(settings: OpenAiSettings, decode_text: DecodeText | None = None) -> OpenAiEngine:
    """An engine over a server that runs already; blocks while it is asked for what it has to give.

    Args:
        settings: which server.
        decode_text: token ids to text, for stop strings; without it they are refused.

    Raises:
        EngineLostError: when it does not answer.
        EngineError: naming what it cannot give, and how it is to be started.
    """
    try:
        with httpx2.Client(
            base_url=settings.address,
            headers=_headers(settings),
            verify=_verify(settings),
            timeout=settings.start_s,
            trust_env=False,
        ) as client:
            model = _model_of(settings, _answer(client.get("/v1/models")))
            body = _body(model, [0, 0], max_tokens=2, temperature=1.0, top_k=1, seed=0)
            _refuse_lacks(settings, _answer(client.post("/v1/completions", json=body)))
    except httpx2.HTTPError as error:
        raise EngineLostError(f"{settings.address} does not answer: {type(error).__name__}: {error}") from error
    return OpenAiEngine(settings, model, decode_text)


def _model_of(settings: OpenAiSettings, answer: Mapping[str, Any]) -> str:
    served = {str(one["id"]): one for one in answer.get("data", ())}
    if settings.model is None and len(served) != 1:
        raise EngineError(f"{settings.address} serves {', '.join(served) or 'nothing'}; name the model.")
    name = settings.model or next(iter(served))
    if name not in served:
        raise EngineError(f"{settings.address} does not serve {name!r}; it has {', '.join(served)}.")
    most = served[name].get("max_model_len")
    if most is not None and int(most) < settings.max_context_tokens:
        raise EngineError(
            f"{settings.address} takes {most} tokens of context, and max_context_tokens is "
            f"{settings.max_context_tokens}; lower it, or start the server with more."
        )
    return name


def _refuse_lacks(settings: OpenAiSettings, answer: Mapping[str, Any]) -> None:
    """What a trial of two tokens shows."""
    choice = answer["choices"][0]
    lacks: list[str] = []
    tokens = choice.get("token_ids")
    if not isinstance(tokens, list):
        lacks.append("token ids of what it drew (`return_token_ids`)")
    found = (choice.get("logprobs") or {}).get("token_logprobs")
    if not isinstance(found, list):
        lacks.append("log-probabilities (`logprobs`)")
    elif isinstance(tokens, list) and len(found) != len(tokens):
        lacks.append(f"one log-probability a token: {len(found)} came for {len(tokens)}")
    elif any(abs(float(one)) > _ZERO for one in found):
        lacks.append(
            "log-probabilities of the distribution that it draws from (with top_k=1 each is 0, and it gave "
            f"{', '.join(f'{one:.3g}' for one in found)}; vLLM does with --logprobs-mode processed_logprobs)"
        )
    if isinstance(tokens, list) and len(tokens) != 2:
        lacks.append(f"a turn that goes on to its length (`ignore_eos`): {len(tokens)} tokens came of 2")
    if lacks:
        raise EngineError(f"{settings.address} cannot serve as an engine. It does not give {'; nor '.join(lacks)}.")


def _body(model: str, prompt: list[int], **asked: object) -> Mapping[str, object]:
    return {
        "model": model,
        "prompt": prompt,
        "logprobs": 0,
        "return_token_ids": True,
        "ignore_eos": True,
        "skip_special_tokens": False,
        **asked,
    }


def _verify(settings: OpenAiSettings) -> bool:
    """Certificates are read, which takes time in each client, where there is something to verify."""
    return settings.address.startswith("https://")


def _headers(settings: OpenAiSettings) -> Mapping[str, str]:
    return {} if settings.key is None else {"Authorization": f"Bearer {settings.key}"}


def _answer(response: httpx2.Response) -> Mapping[str, Any]:
    """The body of an answer.

    Raises:
        EngineError: for a request that the server refuses.
        EngineLostError: for a server that failed.
    """
    if response.status_code >= _FAILED:
        raise EngineLostError(f"the server failed with {response.status_code}: {response.text[:200]}")
    if response.status_code != _OK:
        raise EngineError(f"the server refuses it with {response.status_code}: {response.text[:200]}")
    return response.json()


def _choice(event: Mapping[str, Any]) -> Mapping[str, Any]:
    if "choices" not in event:
        raise EngineLostError(f"the server failed in mid-turn: {str(event.get('error', event))[:200]}")
    return event["choices"][0]


def _scores_of(event: Mapping[str, Any], request: GenerationRequest) -> list[float]:
    """Of an event's tokens; greedily, one token has all of the probability."""
    count = len(event["token_ids"])
    if request.sampling.temperature == 0:
        return [0.0] * count
    found = (event.get("logprobs") or {}).get("token_logprobs") or []
    if len(found) != count:
        raise EngineLostError(f"{len(found)} log-probabilities came for {count} tokens of {request.request_id}")
    return [float(one) for one in found]


def _check_sampling(request: GenerationRequest) -> None:
    sampling = request.sampling
    if 0 < sampling.temperature < 0.01 or (sampling.min_p > 0 and sampling.top_p < 1):
        raise EngineError(
            f"request {request.request_id}: {sampling}; a server draws at temperature 0 or at 0.01 and above, and cuts "
            "by min_p before top_p, so that the two leave another set than elsewhere. Ask for one of the two."
        )
