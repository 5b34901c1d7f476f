"""What an engine is asked and what it answers: token ids in; token ids, log-probabilities and versions out."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from rollwright.record.arrays import Ids, Logprobs, Tensors
from rollwright.record.errors import RecordError

__all__ = [
    "Capabilities",
    "Chunk",
    "Engine",
    "Finish",
    "GenerationRequest",
    "Sampling",
    "ScoreRequest",
    "Scores",
    "Swap",
    "TensorSpec",
    "WeightReader",
    "WeightsManifest",
]

Swap = Literal["drain", "continue", "recompute"]
Finish = Literal["stop_token", "stop_string", "length", "swapped", "aborted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a token is drawn; the stored log-probability is under the distribution that results."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0: no limit."""
    min_p: float = 0.0
    processors: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what no engine can draw from."""
        if self.temperature < 0 or not 0 < self.top_p <= 1 or self.top_k < 0 or not 0 <= self.min_p < 1:
            raise RecordError(
                f"sampling has temperature={self.temperature}, top_p={self.top_p}, top_k={self.top_k}, "
                f"min_p={self.min_p}; allowed are temperature >= 0 (0 is greedy), 0 < top_p <= 1, top_k >= 0 "
                "(0 is no limit), 0 <= min_p < 1."
            )

    @property
    def is_truncated(self) -> bool:
        """True where some tokens were cut from the distribution before the draw."""
        return self.top_p < 1 or self.top_k > 0 or self.min_p > 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GenerationRequest:
    """One turn to be drawn, behind the whole context."""

    request_id: str
    policy: str
    session: str
    """`trajectory_id/context`; its cache is warm until `release`."""
    context: int
    """The context's number, for the draws."""
    share: str
    """Requests with equal `share` have their common prefix computed once."""
    token_ids: Ids
    """(n,) the whole context; n is the position of the next token."""
    sampling: Sampling
    max_tokens: int
    deadline_s: float
    """From the call of `generate`; then what was drawn, with finish `aborted`."""
    seed: int
    """Of the episode."""
    stop_token_ids: frozenset[int]
    stop_strings: tuple[str, ...] = ()
    chunk_tokens: int = 0
    """0: a chunk is a turn or a version; 1: each token (gateway)."""
    wanted_tensors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Chunk:
    """Tokens of one policy version, as sampled; the last has a finish and may be empty. Nothing is trimmed."""

    token_ids: Ids
    behavior_logprobs: Logprobs
    """Nats, one per token, under the distribution that was sampled from."""
    policy_version: int
    cache_version: int
    """The oldest weights in the cache these tokens were drawn from."""
    tensors: Tensors
    finish: Finish | None = None

    def __post_init__(self) -> None:
        """Refuse a chunk whose parallel arrays differ in length."""
        if len(self.token_ids) != len(self.behavior_logprobs):
            raise RecordError(
                f"a chunk has {len(self.token_ids)} token_ids and {len(self.behavior_logprobs)} behavior_logprobs; "
                "it needs one log-probability a token. Store what the engine returned at sampling time."
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScoreRequest:
    """Given tokens, to be scored from position `score_from` on."""

    policy: str
    token_ids: Ids
    score_from: int
    sampling: Sampling
    tensors: Tensors
    top_k: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scores:
    """Log-probabilities of tokens `score_from`… under the same sampling and support."""

    logprobs: Logprobs
    policy_version: int
    tensors: Tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSpec:
    """One tensor of a published set of weights."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsManifest:
    """What a publication holds, complete by name, shape and digest."""

    policy: str
    version: int
    update: int
    kind: Literal["full", "lora", "delta"]
    base_version: int | None
    location: str
    """`memory:`, `file:` or `broadcast:` and the place."""
    tensors: tuple[TensorSpec, ...]


WeightReader = Callable[[WeightsManifest], Mapping[str, object]]
"""Comes from the wiring; the tensors stay opaque to the runtime."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What an engine can do."""

    has_sampled_distribution: bool
    has_version_per_token: bool
    is_deterministic: bool
    swaps: frozenset[Swap]
    tensors: frozenset[str]
    max_context_tokens: int
    num_slots: int


class Engine(Protocol):
    """Draws and scores tokens. A lost engine raises EngineLostError in its own requests only."""

    @property
    def capabilities(self) -> Capabilities:
        """What this engine can do."""
        ...

    def generate(self, request: GenerationRequest) -> AsyncIterator[Chunk]:
        """Draw one turn; a chunk is cut only where the version changes."""
        ...

    async def score(self, request: ScoreRequest) -> Scores:
        """Score given tokens."""
        ...

    async def load_weights(self, weights: WeightsManifest, swap: Swap) -> None:
        """Serve new weights; a failed load raises and the old version serves on."""
        ...

    async def cancel(self, request_id: str) -> None:
        """End a request; what was drawn comes back with finish `aborted`."""
        ...

    async def release(self, session: str) -> None:
        """Forget the cache of a session."""
        ...

    async def pause(self) -> None:
        """Draw nothing until `resume`."""
        ...

    async def resume(self) -> None:
        """Go on after `pause`."""
        ...

    async def close(self) -> None:
        """End all requests and free what the engine holds."""
        ...
