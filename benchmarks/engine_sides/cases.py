"""What the engines are asked for: how many requests, how long their prompts, how many new tokens each.

Importing this file takes the standard library alone: every side reads it, in whatever interpreter it runs.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from benchmarks.workloads import LONG_TAIL, LogNormal

__all__ = ["CASES", "Case", "Requested", "rounds"]

SHORT_TAIL = LogNormal(mean=24, sigma=1.0, limit=96)
"""For a model that draws a hundred tokens a second."""
_LAST_SPECIAL_ID = 2


@dataclass(frozen=True)
class Requested:
    """One request; end tokens are ignored, so it draws exactly `new_tokens`."""

    prompt: Sequence[int]
    new_tokens: int
    group: int


@dataclass(frozen=True)
class Case:
    """One line of the table."""

    name: str
    title: str
    requests: int
    prompt_tokens: int
    new_tokens: int | LogNormal
    group_size: int = 1
    """Requests with the same prompt."""
    slots: int = 64
    model: str = "tiny"
    vocab: int = 512
    counts: Literal["new", "prompt"] = "new"
    """Which tokens a second are meant."""
    seed: int = 0

    @property
    def lengths(self) -> list[int]:
        """New tokens of each request, the same in every repetition and on every side."""
        if isinstance(self.new_tokens, int):
            return [self.new_tokens] * self.requests
        return self.new_tokens.draw(self.requests, self.seed)

    @property
    def context_tokens(self) -> int:
        return self.prompt_tokens + max(self.lengths)

    @property
    def tokens(self) -> int:
        """Counted in one repetition."""
        return sum(self.lengths) if self.counts == "new" else self.requests * self.prompt_tokens


def _listed() -> Iterator[Case]:
    for requests in (1, 8, 64, 256):
        yield Case(f"equal-{requests}", f"equal lengths, {requests} requests", requests, 64, 64)
    for requests in (8, 64, 256):
        yield Case(f"mixed-{requests}", f"mixed lengths, {requests} requests", requests, 32, LONG_TAIL)
    yield Case("shared-64", "500-token prompt, groups of 16", 64, 500, 32, group_size=16)
    for requests in (1, 8, 64):
        yield Case(f"prefill-{requests}", f"prefill of {requests} prompts of 256", requests, 256, 1, counts="prompt")
    title = "SmolLM2-135M, mixed lengths, 16 requests"
    yield Case("smollm2-mixed-16", title, 16, 32, SHORT_TAIL, slots=16, model="smollm2-135m", vocab=49_152)


CASES = {case.name: case for case in _listed()}


def rounds(case: Case) -> Iterator[list[Requested]]:
    """The requests of each repetition: new prompts every time, so that no cache has seen them."""
    lengths = case.lengths
    chance = random.Random(f"prompts {case.name} {case.seed}")
    while True:
        prompts = [
            [chance.randrange(_LAST_SPECIAL_ID + 1, case.vocab) for _ in range(case.prompt_tokens)]
            for _ in range(-(-case.requests // case.group_size))
        ]
        yield [Requested(prompts[i // case.group_size], lengths[i], i // case.group_size) for i in range(case.requests)]
