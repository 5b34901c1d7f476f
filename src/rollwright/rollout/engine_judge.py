"""A judge that is a model in an engine of ours: its prompt rendered by its own template, its reasoning left out."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rollwright.record import Engine, EngineLostError, GenerationRequest, Message, Sampling, digest, ids, seed_of
from rollwright.rendering import Renderer
from rollwright.verifiers.judging.client import JudgeReply, JudgeUnavailableError
from rollwright.verifiers.judging.recorded import question_digest

__all__ = ["EngineJudge"]

_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineJudge:
    """A `JudgeClient` over an engine; the same question has the same seed, so an engine that replays repeats itself."""

    engine: Engine
    renderer: Renderer
    model: str
    """A digest of the weights, or a name that stands for them."""
    policy: str = "policy"
    sampling: Sampling = Sampling(temperature=0.0)
    max_tokens: int = 512
    deadline_s: float = 600.0
    _number: "itertools.count[int]" = field(default_factory=itertools.count, init=False, repr=False, compare=False)

    @property
    def revision(self) -> str:
        """A digest of weights, template and decoding."""
        s = self.sampling
        decoding = [s.temperature, s.top_p, s.top_k, s.min_p, self.max_tokens]
        return digest([_REVISION, "engine", self.model, self.renderer.revision({}), decoding])[:16]

    async def complete(self, messages: Sequence[Message]) -> JudgeReply:
        """Draw one turn behind the conversation."""
        rendered = self.renderer.open(messages, {})
        context = ids(np.concatenate([piece.token_ids for piece in rendered.pieces]))
        room = self.engine.capabilities.max_context_tokens - len(context)
        if room < 1:
            raise JudgeUnavailableError(
                f"the question has {len(context)} tokens and the judge's engine takes "
                f"{self.engine.capabilities.max_context_tokens}; show less, or give the engine more"
            )
        key = question_digest(self.revision, messages)
        session = f"judge-{key[:16]}-{next(self._number)}/0"
        request = GenerationRequest(
            request_id=session,
            policy=self.policy,
            session=session,
            context=0,
            share=key,
            token_ids=context,
            sampling=self.sampling,
            max_tokens=min(self.max_tokens, room),
            deadline_s=self.deadline_s,
            seed=seed_of("judge", key),
            stop_token_ids=self.renderer.stop_token_ids,
        )
        try:
            drawn = [chunk.token_ids async for chunk in self.engine.generate(request)]
        except EngineLostError as error:
            raise JudgeUnavailableError(f"the judge's engine was lost: {error}") from error
        except asyncio.CancelledError:
            await self.engine.cancel(session)
            raise
        finally:
            await self.engine.release(session)
        return JudgeReply(text=self.renderer.parse(ids(np.concatenate(drawn))).visible)
