"""Chunks as they come from a service, and a turn that ends at a stop string which only the text shows."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from rollwright.engines.passing import closing
from rollwright.engines.stops import DecodeText, ends_in_stop_string
from rollwright.record import Chunk, Finish, GenerationRequest, ids, logprobs

__all__ = ["chunk_of", "until_stop_string"]


def chunk_of(tokens: ArrayLike, scores: ArrayLike, version: int, cache_version: int, finish: Finish | None) -> Chunk:
    """A chunk without tensors."""
    return Chunk(
        token_ids=ids(tokens),
        behavior_logprobs=logprobs(scores),
        policy_version=version,
        cache_version=cache_version,
        tensors={},
        finish=finish,
    )


async def until_stop_string(
    stream: AsyncIterator[Chunk], request: GenerationRequest, decode: DecodeText
) -> AsyncGenerator[Chunk]:
    """Chunks up to the token that completes a stop string; what was drawn behind it was never a part of the turn.

    Args:
        stream: of the turn without stop strings, a token or so a chunk; it is closed at the stop.
        request: with its stop strings, and the size of chunks that it asks for.
        decode: token ids to text.
    """
    drawn: list[int] = []
    held: list[Chunk] = []
    async with closing(stream) as chunks:
        async for chunk in chunks:
            if held and _versions(chunk) != _versions(held[0]):
                yield _joined(held, None)
                held = []
            for place, token in enumerate(chunk.token_ids.tolist(), start=1):
                drawn.append(token)
                if ends_in_stop_string(ids(drawn), request.stop_strings, decode):
                    first = chunk_of(
                        chunk.token_ids[:place], chunk.behavior_logprobs[:place], *_versions(chunk), finish=None
                    )
                    yield _joined([*held, first], "stop_string")
                    return
            held.append(chunk)
            if chunk.finish is not None:
                yield _joined(held, chunk.finish)
            elif 0 < request.chunk_tokens <= sum(len(one.token_ids) for one in held):
                yield _joined(held, None)
                held = []


def _versions(chunk: Chunk) -> tuple[int, int]:
    return chunk.policy_version, chunk.cache_version


def _joined(chunks: Sequence[Chunk], finish: Finish | None) -> Chunk:
    tokens = np.concatenate([chunk.token_ids for chunk in chunks])
    scores = np.concatenate([chunk.behavior_logprobs for chunk in chunks])
    return chunk_of(tokens, scores, *_versions(chunks[0]), finish=finish)
