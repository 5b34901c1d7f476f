"""The bench that items work at: it asks the engine under test and compares what comes back with the reference."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.conformance.subject import Fault, Subject
from rollwright.engines.passing import closing
from rollwright.engines.sampling import SamplingRows, distribution, score
from rollwright.record import Chunk, Engine, Finish, GenerationRequest, Ids, Sampling, ids

__all__ = ["Bench", "Turn", "expect"]

_MOST_AT_ONCE = 96


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Turn:
    """A request with all that came back for it."""

    request: GenerationRequest
    chunks: tuple[Chunk, ...]

    @property
    def token_ids(self) -> Ids:
        """(n,) drawn."""
        return ids(np.concatenate([chunk.token_ids for chunk in self.chunks]))

    @property
    def logprobs(self) -> NDArray[np.float32]:
        """(n,) nats."""
        return np.concatenate([chunk.behavior_logprobs for chunk in self.chunks])

    @property
    def versions(self) -> list[int]:
        """Of each token."""
        return [chunk.policy_version for chunk in self.chunks for _ in chunk.token_ids]

    @property
    def finish(self) -> Finish | None:
        """Of its last chunk."""
        return self.chunks[-1].finish

    @property
    def context(self) -> Ids:
        """The prompt and what was drawn."""
        return ids(np.concatenate([self.request.token_ids, self.token_ids]))


def expect(condition: bool, sentence: str) -> None:  # noqa: FBT001 - what is to hold
    """Say a fault where a promise is not kept.

    Raises:
        Fault: with the sentence.
    """
    if not condition:
        _fault(sentence)


def _fault(sentence: str) -> NoReturn:
    raise Fault(sentence)


class Bench:
    """One engine under test; `version` is the one that should serve."""

    def __init__(self, engine: Engine, subject: Subject, version: int = 0) -> None:
        """Store the parts.

        Args:
            engine: opened, serving `version`.
            subject: what it is judged by.
            version: of its weights.
        """
        self.engine = engine
        self.subject = subject
        self.version = version
        self._numbers = itertools.count()

    def request(self, prompt: Ids, **changes: object) -> GenerationRequest:
        """An ordinary request behind a prompt, of a session and a seed of its own."""
        number = next(self._numbers)
        asked = GenerationRequest(
            request_id=f"check-{number}",
            policy=self.subject.policy,
            session=f"check-{number}/0",
            context=0,
            share=f"check-{number}",
            token_ids=prompt,
            sampling=Sampling(),
            max_tokens=self.subject.new_tokens,
            deadline_s=self.subject.patience_s,
            seed=1000 + number,
            stop_token_ids=frozenset(),
        )
        return replace(asked, **changes)

    async def draw(self, request: GenerationRequest, *, keep: bool = False) -> Turn:
        """One whole turn; its session is given back unless it is to be kept."""
        turn = Turn(request=request, chunks=tuple(await self.rest(self.engine.generate(request))))
        if not keep:
            await self.engine.release(request.session)
        expect(bool(turn.chunks), "a turn came back without any chunk")
        return turn

    async def draw_all(self, requests: Sequence[GenerationRequest]) -> list[Turn]:
        """Turns at once, as many as the engine is asked for at a time."""
        gate = asyncio.Semaphore(_MOST_AT_ONCE)

        async def one(request: GenerationRequest) -> Turn:
            async with gate:
                return await self.draw(request)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(request)) for request in requests]
        return [task.result() for task in tasks]

    async def rest(self, stream: AsyncIterator[Chunk]) -> list[Chunk]:
        """What still comes of a stream."""
        async with asyncio.timeout(self.subject.patience_s), closing(stream) as chunks:
            return [chunk async for chunk in chunks]

    def reference(self, turn: Turn, version: int | None = None) -> NDArray[np.float64]:
        """(n,) nats of a turn's tokens by the reference, under the sampling that was asked for."""
        context, start = turn.context, len(turn.request.token_ids)
        full = self.subject.reference(self.version if version is None else version, context)
        return score(full[start - 1 :], context[start:], turn.request.sampling).logprobs

    def distribution(self, prompt: Ids, sampling: Sampling) -> NDArray[np.float64]:
        """(V,) nats of the next token behind a prompt, −inf where it cannot be drawn."""
        # The last row of a context stands behind its last token but one: a token more makes it that of the prompt.
        full = self.subject.reference(self.version, ids([*prompt.tolist(), 0]))
        return distribution(full[-1:], SamplingRows.of([sampling]))[0]

    def agree(self, turn: Turn, version: int | None = None) -> None:
        """Compare a turn's log-probabilities with the reference.

        Raises:
            Fault: at the first token that is off, or lies outside of what the sampling leaves.
        """
        expect(len(turn.token_ids) > 0, "nothing was drawn")
        due = self.reference(turn, version)
        gaps = np.abs(turn.logprobs.astype(np.float64) - due)
        gaps[np.isnan(gaps)] = np.inf
        worst = int(gaps.argmax())
        if gaps[worst] > self.subject.tolerance:
            token, found = int(turn.token_ids[worst]), float(turn.logprobs[worst])
            outside = ": it cannot be drawn under this sampling" if due[worst] == -np.inf else ""
            _fault(
                f"token {worst} ({token}) has log-probability {found:.6g}, the reference gives {due[worst]:.6g}"
                f"{outside} ({turn.request.sampling}; allowed difference {self.subject.tolerance:g})"
            )
