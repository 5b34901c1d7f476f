"""One turn from an engine: requests in, runs of one version out.

    request ──► engine.generate ──chunks──► runs (cut where the version changes) ──► SampledTurn
       ▲                           │ finish `swapped`: the rest of the budget, behind what was drawn
       └───────────────────────────┘

It waits on the engine alone, until the request's deadline; an interruption cancels the request, and what was drawn
comes back. Whatever the engine raises ends this turn only.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from rollwright.record import (
    Chunk,
    Engine,
    EngineLostError,
    Finish,
    GenerationRequest,
    Ids,
    Logprobs,
    Tensors,
    ids,
    logprobs,
)
from rollwright.rollout.spec import Interruption

__all__ = ["SampledRun", "SampledTurn", "joined_turns", "sample_turn"]

CANCEL_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledRun:
    """Tokens of one version and one cache, as drawn: a segment to be."""

    token_ids: Ids
    behavior_logprobs: Logprobs
    policy_version: int
    cache_version: int
    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampledTurn:
    """What came back for one turn; nothing of it is lost where the engine failed behind it."""

    runs: tuple[SampledRun, ...]
    finish: Finish | None
    failure: str | None
    """Why the engine gave no end."""

    @property
    def token_ids(self) -> Ids:
        """All runs together."""
        if len(self.runs) == 1:
            return self.runs[0].token_ids
        return ids(np.concatenate([run.token_ids for run in self.runs])) if self.runs else ids([])

    @property
    def num_tokens(self) -> int:
        """Length of all runs."""
        return sum(len(run.token_ids) for run in self.runs)


async def sample_turn(
    engine: Engine,
    request: GenerationRequest,
    interruption: Interruption,
    deadline_s: float,
    drawn: Callable[[Chunk], None] | None = None,
) -> SampledTurn:
    """Draw a turn.

    Args:
        engine: serves the request's policy.
        request: behind the whole context.
        interruption: knows the request while it is in flight, to cancel it.
        deadline_s: after which an engine that does not keep the request's own deadline is left.
        drawn: hears of each chunk at once.

    Returns:
        The runs, and either how the turn finished or why it did not.
    """
    chunks: list[Chunk] = []

    def take(chunk: Chunk) -> None:
        chunks.append(chunk)
        if drawn is not None:
            drawn(chunk)

    finish: Finish | None = None
    failure: str | None = None
    try:
        async with asyncio.timeout(deadline_s):
            finish = await _draw(engine, request, interruption, chunks, take)
    except TimeoutError:
        failure = f"the engine did not end a request within {deadline_s:g} s, past the deadline it was given"
    except EngineLostError as error:
        failure = f"engine lost: {error}"
    except Exception as error:  # noqa: BLE001 - the loop that turns an engine's failure into a record
        failure = f"engine failed: {type(error).__name__}: {error}"
    num_drawn = sum(len(chunk.token_ids) for chunk in chunks)
    if failure is None and num_drawn > request.max_tokens:
        failure = f"the engine drew {num_drawn} tokens where {request.max_tokens} were asked for"
    if failure is None and finish is None:
        failure = "the engine's stream ended without a finish"
    return SampledTurn(runs=_runs(chunks), finish=finish, failure=failure)


def joined_turns(drawn: SampledTurn, rest: SampledTurn) -> SampledTurn:
    """A turn that was cut, with what was drawn behind it later; neighbours of one version and one cache are one run."""
    runs = [*drawn.runs, *(run for run in rest.runs if len(run.token_ids) or not drawn.runs)]
    joined: list[SampledRun] = runs[:1]
    for run in runs[1:]:
        last = joined[-1]
        is_same = (last.policy_version, last.cache_version) == (run.policy_version, run.cache_version)
        if is_same and last.tensors.keys() == run.tensors.keys():
            joined[-1] = replace(
                last,
                token_ids=ids(np.concatenate([last.token_ids, run.token_ids])),
                behavior_logprobs=logprobs(np.concatenate([last.behavior_logprobs, run.behavior_logprobs])),
                tensors={name: np.concatenate([last.tensors[name], run.tensors[name]]) for name in last.tensors},
            )
        else:
            joined.append(run)
    return SampledTurn(runs=tuple(joined), finish=rest.finish, failure=rest.failure)


async def _draw(
    engine: Engine,
    request: GenerationRequest,
    interruption: Interruption,
    chunks: list[Chunk],
    take: Callable[[Chunk], None],
) -> Finish | None:
    """Have chunks taken; where new weights ended the request, ask for the rest of the budget."""
    wanted = request
    part = 0
    while True:
        interruption.requests[wanted.request_id] = engine
        try:
            finish = await _collect(engine, wanted, take)
        finally:
            del interruption.requests[wanted.request_id]
        if finish != "swapped":
            return finish
        drawn = np.concatenate([chunk.token_ids for chunk in chunks])
        if interruption.reason is not None:
            return "aborted"
        if len(drawn) >= request.max_tokens:
            return "length"
        part += 1
        wanted = replace(
            request,
            request_id=f"{request.request_id}.{part}",
            token_ids=ids(np.concatenate([request.token_ids, drawn])),
            max_tokens=request.max_tokens - len(drawn),
        )


async def _collect(engine: Engine, request: GenerationRequest, take: Callable[[Chunk], None]) -> Finish | None:
    """One request's chunks; a request that is left before its end is cancelled."""
    stream = engine.generate(request)
    finish: Finish | None = None
    is_done = False
    try:
        async for chunk in stream:
            take(chunk)
            finish = chunk.finish if chunk.finish is not None else finish
        is_done = True
    finally:
        if not is_done:
            with suppress(Exception):  # What ended the stream is the cause to report, not a failure to clean up.
                async with asyncio.timeout(CANCEL_TIMEOUT_S):
                    await engine.cancel(request.request_id)
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
    return finish


def _runs(chunks: list[Chunk]) -> tuple[SampledRun, ...]:
    """Join neighbours of one version and one cache; a turn in which nothing was drawn is one empty run."""
    if not chunks:
        return ()
    kept = [chunk for chunk in chunks if len(chunk.token_ids)] or chunks[-1:]
    groups: list[list[Chunk]] = []
    for chunk in kept:
        last = groups[-1][-1] if groups else None
        if last and (last.policy_version, last.cache_version) == (chunk.policy_version, chunk.cache_version):
            groups[-1].append(chunk)
        else:
            groups.append([chunk])
    return tuple(_joined(group) for group in groups)


def _joined(chunks: list[Chunk]) -> SampledRun:
    first = chunks[0]
    if len(chunks) == 1:
        token_ids, scores, tensors = first.token_ids, first.behavior_logprobs, first.tensors
    else:
        token_ids = ids(np.concatenate([chunk.token_ids for chunk in chunks]))
        scores = logprobs(np.concatenate([chunk.behavior_logprobs for chunk in chunks]))
        tensors = {name: np.concatenate([chunk.tensors[name] for chunk in chunks]) for name in first.tensors}
    return SampledRun(
        token_ids=token_ids,
        behavior_logprobs=scores,
        policy_version=first.policy_version,
        cache_version=first.cache_version,
        tensors=tensors,
    )
