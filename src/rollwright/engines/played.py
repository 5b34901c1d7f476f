"""Plays the turns of a demonstration as if a policy had sampled them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from rollwright.engines.checks import check_request
from rollwright.engines.errors import EngineError
from rollwright.record import (
    Capabilities,
    Chunk,
    EngineLostError,
    Finish,
    GenerationRequest,
    Ids,
    ScoreRequest,
    Scores,
    Swap,
    WeightsManifest,
    ids,
    logprobs,
)

__all__ = ["PlayedEngine"]


class PlayedEngine:
    """Answers the requests of one episode, in order, with given turns.

    A turn ends at its first stop token, and is cut at `max_tokens`. A played token was drawn from no distribution: its
    log-probability is NaN, so that nothing can take it for one.
    """

    def __init__(self, turns: Sequence[ArrayLike], *, max_context_tokens: int = 2**20) -> None:
        """Store the turns.

        Args:
            turns: the token ids of each, its stop token included.
            max_context_tokens: the longest context that is answered.
        """
        self._turns = [ids(turn) for turn in turns]
        self._max_context_tokens = max_context_tokens
        self._next = 0
        self._running = asyncio.Event()
        self._running.set()
        self._is_closed = False

    @property
    def capabilities(self) -> Capabilities:
        """Deterministic, without a sampled distribution, unlimited in width."""
        return Capabilities(
            has_sampled_distribution=False,
            has_version_per_token=False,
            is_deterministic=True,
            swaps=frozenset[Swap](),
            tensors=frozenset(),
            max_context_tokens=self._max_context_tokens,
            num_slots=2**20,
        )

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Play the next turn.

        Raises:
            EngineError: when no turn is left, or the turn has no end that this request would see.
            EngineLostError: after `close`.
        """
        if self._is_closed:
            raise EngineLostError("the playing engine is closed")
        check_request(request, self.capabilities, request.policy)
        if self._next >= len(self._turns):
            raise EngineError(
                f"request {request.request_id} asks for turn {self._next + 1} of a demonstration of "
                f"{len(self._turns)} turns. A demonstration has to end the episode with its last turn."
            )
        turn = self._turns[self._next]
        self._next += 1
        return self._play(request, turn)

    async def score(self, request: ScoreRequest) -> Scores:
        """Refused: a demonstration has no distribution."""
        raise EngineError("a playing engine has no model to score with; score with the policy's engine.")

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Refused: there are no weights."""
        raise EngineError("a playing engine has no weights; publish to the policy's engine.")

    async def cancel(self, request_id: str) -> None:
        """Nothing to do: a turn is played at once."""

    async def release(self, session: str) -> None:
        """Nothing to do: there is no cache."""

    async def pause(self) -> None:
        """Play nothing until `resume`."""
        self._running.clear()

    async def resume(self) -> None:
        """Go on after `pause`."""
        self._running.set()

    async def close(self) -> None:
        """Refuse further requests."""
        self._is_closed = True
        self._running.set()

    async def _play(self, request: GenerationRequest, turn: Ids) -> AsyncIterator[Chunk]:
        try:
            await asyncio.wait_for(self._running.wait(), timeout=max(0.0, request.deadline_s))
        except TimeoutError:
            yield _chunk(turn[:0], "aborted")
            return
        if self._is_closed:
            yield _chunk(turn[:0], "aborted")
            return
        stops = np.flatnonzero(np.isin(turn, sorted(request.stop_token_ids)))
        length = int(stops[0]) + 1 if len(stops) else len(turn)
        if length > request.max_tokens:
            yield _chunk(turn[: request.max_tokens], "length")
        elif not len(stops):
            raise EngineError(
                f"a turn of {len(turn)} tokens has none of the stop tokens {sorted(request.stop_token_ids)}. "
                "Encode a demonstration's turn with its stop token."
            )
        else:
            yield _chunk(turn[:length], "stop_token")


def _chunk(tokens: Ids, finish: Finish) -> Chunk:
    return Chunk(
        token_ids=ids(tokens),
        behavior_logprobs=logprobs(np.full(len(tokens), np.nan)),
        policy_version=0,
        cache_version=0,
        tensors={},
        finish=finish,
    )
