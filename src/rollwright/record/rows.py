"""Records of table rows: each has its table's columns as fields (contracts, sections 2 and 3).

A nullable column is `| None`, a STRUCT a record, a list of numbers a read-only array.
Parts of a trajectory leave out `trajectory_id`; a test compares the fields with `tables.py`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rollwright.record.arrays import Ids, Logprobs, Tensors
from rollwright.record.engine import Sampling
from rollwright.record.errors import RecordError

__all__ = [
    "ORIGINS",
    "EligibleRow",
    "EvaluationRow",
    "Flag",
    "LedgerRow",
    "LedgerState",
    "Metric",
    "Origin",
    "Receipt",
    "Runs",
    "Segment",
    "TokenSpan",
    "ToolCall",
]

Origin = Literal["task", "policy", "tool", "environment", "user", "demonstration", "teacher", "template", "replayed"]
ORIGINS: tuple[str, ...] = (
    "task",
    "policy",
    "tool",
    "environment",
    "user",
    "demonstration",
    "teacher",
    "template",
    "replayed",
)
LedgerState = Literal["in_flight", "ready", "trained", "filtered", "expired", "failed", "requeued"]


class Flag:
    """Bits of a receipt's `flags`."""

    CLIPPED_HIGH = 1 << 0
    CLIPPED_LOW = 1 << 1
    DUAL_CLIP = 1 << 2
    TOKEN_MASK = 1 << 3
    SEQUENCE_MASK = 1 << 4
    STALE = 1 << 5
    NON_FINITE = 1 << 6
    OUTSIDE_SUPPORT = 1 << 7
    TRUNCATION_MASK = 1 << 8
    ZERO_ADVANTAGE = 1 << 9
    OUTER_CLIP = 1 << 10
    """The ratio was held by a bound outside the clip."""
    SELECTED = 1 << 11
    """Chosen by a stage of the update."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpan:
    """A run of tokens of one action type inside a policy segment, half open."""

    kind: str
    """reasoning, answer, tool_call or stop."""
    token_start: int
    token_end: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """Contiguous tokens of one origin, one policy version and one sampling; immutable, arrays read-only."""

    segment: int
    parent: int | None
    """None opens a context."""
    context: int
    spawned_by: str | None = None
    """The call that opened this context, on a root."""
    start: int
    """Position of the first token in its context."""
    origin: Origin
    actor: str
    turn: int
    token_ids: Ids
    behavior_logprobs: Logprobs | None = None
    """Nats; present exactly where a model sampled."""
    policy: str | None = None
    policy_version: int | None = None
    cache_version: int | None = None
    sampling: Sampling | None = None
    spans: tuple[TokenSpan, ...] | None = None
    finish: str | None = None
    copied_from: int | None = None
    call_id: str | None = None
    state_hash: str | None = None
    tensors: Tensors = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        """Refuse a segment whose provenance contradicts itself."""
        has_source = self.origin in ("policy", "teacher")
        given = self.behavior_logprobs
        if has_source and (given is None or len(given) != len(self.token_ids)):
            have = "no" if given is None else str(len(given))
            raise RecordError(
                f"{self.origin} segment of {len(self.token_ids)} tokens has {have} behavior_logprobs; it needs one a "
                "token. Store what the engine returned at sampling time; never recompute it here."
            )
        if not has_source and given is not None:
            raise RecordError(
                f"{self.origin} segment has behavior_logprobs; only what a model sampled (policy, teacher) has them."
            )
        if has_source and (self.policy is None or self.policy_version is None or self.sampling is None):
            raise RecordError(
                f"{self.origin} segment {self.segment} lacks policy, policy_version or sampling; a sampled segment "
                "names the weights and the distribution that drew it."
            )
        if given is not None and len(given) and bool(np.any(given > 0)):
            raise RecordError(
                f"{self.origin} segment {self.segment} has a behavior_logprob above 0; log-probabilities are at most 0."
            )

    @property
    def num_tokens(self) -> int:
        """Length in tokens."""
        return len(self.token_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call of a tool, with what it gave."""

    call_id: str
    asked_in: int
    """The policy segment that holds the call."""
    answered_in: int | None
    """The segment that holds the result; None where the episode ended before it was shown."""
    turn: int
    tool: str
    tool_revision: str
    arguments: str
    status: Literal["ok", "tool_error", "invalid_call", "timeout", "limit", "refused"]
    result: str | None
    result_sha256: str | None
    result_bytes: int
    retention: Literal["inline", "blob", "dropped"]
    started_at: datetime
    latency_s: float
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Runs:
    """Run-length numbers: value v[i] stands n[i] times; an empty n means one value a token."""

    n: NDArray[np.int32]
    v: NDArray[Any]

    def expand(self) -> NDArray[Any]:
        """(T,) one value a token."""
        return self.v if len(self.n) == 0 else np.repeat(self.v, self.n)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Receipt:
    """What one update did with one segment, for one component of the loss."""

    step: int
    update: int
    model: str
    """policy or critic."""
    component: str
    """policy_gradient, kl, value, nll, distillation or entropy."""
    trajectory_id: str
    segment: int
    row_index: int
    lag: int
    num_eligible: int
    num_kept: int
    untrained_reason: str | None
    """Of the whole segment: zero_contrast, unscored, truncated, stale or rejected."""
    advantage: Runs | None
    token_weight: Runs | None
    """Final scale included."""
    correction: Runs | None
    """Detached; None: 1 everywhere."""
    flags: Runs | None
    """Bits of `Flag`."""
    proximal_logprobs: Logprobs | None
    """None: the named bypass mode, ratio current/behavior."""
    current_logprobs: Logprobs | None
    """None: equal to proximal."""
    reference_logprobs: Logprobs | None = None
    teacher_logprobs: Logprobs | None = None
    predicted_values: Logprobs | None = None
    value_targets: Logprobs | None = None
    entropy: float | None = None
    """Mean over kept tokens, nats."""
    max_log_ratio: float | None = None
    loss: float
    influence: float
    """Σ |weight·correction·advantage| over kept tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """A change of state of one slot; `seq` is given at commit."""

    seq: int
    recorded_at: datetime
    step: int
    group_id: int
    slot: int
    attempt: int
    task_id: str
    task_source: str
    state: LedgerState
    rule: str | None
    trajectory_id: str | None
    successor: int | None
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One number of a step (update 0) or of an update; value None is undefined, never 0."""

    step: int
    update: int
    name: str
    value: float | None
    unit: str
    labels: Mapping[str, str]
    num_items: int
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """One metric of one evaluation, with its interval."""

    evaluation: str
    protocol: str
    protocol_sha256: str
    policy: str
    policy_version: int
    step: int
    metric: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    interval_method: str
    labels: Mapping[str, str]
    num_tasks: int
    num_trajectories: int
    num_unscored: int
    recorded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EligibleRow:
    """An (origin, policy) pair that a component trains; the manifest lists them."""

    model: str
    component: str
    origin: str
    policy: str | None
    """None for demonstrations."""
