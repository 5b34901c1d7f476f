"""A language model that is a table: what comes next depends on the last token alone.

It gives `ScriptedEngine` replies that follow a distribution, so that an engine without a model can be held to all of
the protocol.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from rollwright.engines.sampling import SamplingRows, draw
from rollwright.engines.scripted import Reply
from rollwright.record import GenerationRequest, Ids, ScoreRequest

__all__ = ["BigramModel"]


class BigramModel:
    """Reply, score and reference of one random table."""

    def __init__(
        self, vocab: int = 64, seed: int = 0, decode_text: Callable[[Sequence[int]], str] | None = None
    ) -> None:
        """Draw the table.

        Args:
            vocab: number of token ids.
            seed: of the table.
            decode_text: for stop strings.
        """
        self._logits = np.random.default_rng(seed).normal(0.0, 2.0, (vocab, vocab)).astype(np.float32)
        self._decode_text = decode_text

    def reference(self, version: int, context: Ids) -> NDArray[np.float32]:
        """(n − 1, V) nats; the same in every version."""
        del version
        rows = self._logits[context[:-1]].astype(np.float64)
        return (rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))).astype(np.float32)

    def scores(self, request: ScoreRequest) -> NDArray[np.float64]:
        """Of the given tokens, at temperature 1."""
        full = self.reference(0, request.token_ids)[request.score_from - 1 :]
        return full[np.arange(len(full)), request.token_ids[request.score_from :]].astype(np.float64)

    def reply(self, request: GenerationRequest) -> Reply:
        """As many tokens as are asked for, up to a stop string; a fraction of a millisecond each."""
        noise = np.random.default_rng([request.seed, request.context, len(request.token_ids)])
        rows, last = SamplingRows.of([request.sampling]), int(request.token_ids[-1])
        tokens: list[int] = []
        found: list[float] = []
        while len(tokens) < request.max_tokens and not self._has_stopped(tokens, request):
            drawn = draw(self._logits[last : last + 1], rows, noise.random(1))
            last = int(drawn.token_ids[0])
            tokens.append(last)
            found.append(float(drawn.logprobs[0]))
        return Reply(token_ids=tokens, behavior_logprobs=found, delay_s=_DELAY_S if request.chunk_tokens else 0.0)

    def _has_stopped(self, tokens: list[int], request: GenerationRequest) -> bool:
        if self._decode_text is None or not request.stop_strings:
            return False
        text = self._decode_text(tokens)
        return any(stop in text for stop in request.stop_strings)


_DELAY_S = 0.0005
