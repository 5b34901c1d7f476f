"""The shapes a batch takes on its way from trajectories to gradients, and what comes back.

    members ──plan──► StepBatch ──minibatches──► UpdatePlan ──cut──► MicroBatch ──learner──► UpdateOutcome ──► receipts

All per-token arrays of a `StepBatch` have its T packed tokens: row r (one branch) is
`row_offsets[r]:row_offsets[r + 1]`; entry t belongs to token t itself, so `behavior[t]` scores `token_ids[t]`.
A micro-batch is a copy of whole rows; `token_index` says where its tokens stand in the step's stream.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rollwright.record.trajectory import ScoredTrajectory

__all__ = [
    "BatchRow",
    "CreditFacts",
    "MicroBatch",
    "ReferenceScores",
    "StepBatch",
    "Support",
    "SupportTensors",
    "UpdateOutcome",
    "UpdatePlan",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchRow:
    """One branch of one member: a training sequence."""

    member: int
    """Index in `StepBatch.members`."""
    segments: tuple[int, ...]
    """The path from root to leaf, segment numbers of the trajectory."""
    owns: tuple[int, ...]
    """Eligible segments that stand in this row, empty ones too: their receipts carry this row's number."""
    stale_segments: tuple[int, ...]
    """Of `owns`, those withheld alone for their age while the row stays."""
    withheld: str | None
    """Why the row leaves numerator and denominator (unscored, truncated, stale, rejected); None: it stays."""
    lag: int
    """(step - 1) - policy_version of the trajectory's oldest eligible token; 0 where nothing was sampled."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Support:
    """The token ids that each sampled token was drawn among, where the distribution was cut (M47)."""

    offsets: NDArray[np.int64]
    """(T + 1,) token t was drawn among `token_ids[offsets[t]:offsets[t + 1]]`; nothing there: the whole vocabulary."""
    token_ids: NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CreditFacts:
    """What credit and weights are made from, besides the tokens: R rows, T tokens."""

    rewards: NDArray[np.float64]
    """(R,) verifier units, after the truncation rule; NaN where unscored."""
    group_index: NDArray[np.int64]
    """(R,) equal values were dispatched together."""
    source_index: NDArray[np.int64]
    """(R,) task source, numbered in alphabetical order of those in the batch; credit sees `source_number`s."""
    episode_index: NDArray[np.int64]
    """(R,) the member."""
    is_truncated: NDArray[np.bool_]
    """(R,)"""
    step_rewards: NDArray[np.float64]
    """(T,) what a turn was paid, on its last action token; 0 elsewhere."""
    turn_index: NDArray[np.int64]
    """(T,) turn of the segment."""
    state_index: NDArray[np.int64]
    """(T,) equal where a group's actions started from equal environment states; -1: unknown."""
    bootstrap: NDArray[np.float64] | None
    """(R,) value of the state after the last token; NaN where unknown."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepBatch:
    """Whole groups laid out on the host, with credit; rows sorted by (group_id, slot, attempt, leaf segment)."""

    step: int
    model: str
    members: tuple[ScoredTrajectory, ...]
    rows: tuple[BatchRow, ...]
    row_offsets: NDArray[np.int64]
    """(R + 1,)"""
    token_ids: NDArray[np.int32]
    segment_ids: NDArray[np.int32]
    """(T,) the segment of the trajectory that each token stands in."""
    acts: NDArray[np.bool_]
    """(T,) True on every eligible token of the branch but the row's first: what credit sees."""
    action_mask: NDArray[np.bool_]
    """(T,) what is trained: True on eligible tokens in the one row they stand in, unless withheld. Within `acts`."""
    behavior: NDArray[np.float32]
    """(T,) nats; NaN where nothing was sampled (demonstrations included)."""
    policy_versions: NDArray[np.int32]
    """(T,) -1 where nothing was sampled."""
    temperature: NDArray[np.float32]
    """(T,) of the segment's sampling; 1 elsewhere."""
    advantages: NDArray[np.float64]
    """(T,) 0 outside `acts`."""
    value_targets: NDArray[np.float64] | None
    untrained: Mapping[int, str]
    """Row to reason (zero_contrast, unscored, …), from credit and from withholding."""
    eligible: frozenset[tuple[str, str | None]]
    """(origin, policy) pairs that this batch trains."""
    facts: CreditFacts
    scores: Mapping[str, NDArray[np.float32]] = field(default_factory=lambda: {})
    """Streams made before the update, by name (reference, teacher, proximal, predicted, and of the proximal policy
    entropy and sum_squared_probabilities): (T,), NaN where absent."""
    support: Support | None = None
    """None: every token was drawn from the whole vocabulary."""
    routed_experts: NDArray[np.int32] | None = None
    """(T, layers, k) experts that the engine chose, -1 where unknown; None: nothing to replay."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdatePlan:
    """The rows of one optimizer step, with the weights of all of them made at once."""

    batch: StepBatch
    update: int
    rows: tuple[int, ...]
    token_weights: Mapping[str, NDArray[np.float64]]
    """Component to (T,) weights over the step's stream, 0 outside these rows' trained tokens; final scale included."""
    weight_sums: Mapping[str, float]
    """Component to the sum that closed form over row lengths gives: the metric `weight_sum`."""
    denominators: Mapping[str, float]
    """Component to N, B or B·L, as the named denominator has it: the metric `denominator`."""
    made: Mapping[str, NDArray[np.generic]] = field(default_factory=lambda: {})
    """Stage to the (T,) stream that it made from these rows; 0 elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SupportTensors:
    """`Support` of a micro-batch, as tensors."""

    offsets: Tensor
    """(t + 1,) int64"""
    token_ids: Tensor
    """int64"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MicroBatch:
    """Whole rows of an update, packed without padding, as tensors on the learner's device."""

    rows: tuple[int, ...]
    """Their numbers in the step's batch."""
    token_ids: Tensor
    """(t,) int64"""
    position_ids: Tensor
    """(t,) int64, from 0 in every row."""
    row_offsets: Tensor
    """(r + 1,) int64"""
    action_mask: Tensor
    """(t,) bool; what is trained. The first token of a row is never True (nothing predicts it)."""
    advantages: Tensor
    """(t,) float32; 0 outside `action_mask`."""
    temperature: Tensor
    """(t,) float32"""
    behavior: Tensor
    """(t,) float32; NaN where nothing was sampled."""
    policy_versions: Tensor
    """(t,) int32"""
    token_weights: Mapping[str, Tensor]
    """Component to (t,) float64."""
    value_targets: Tensor | None
    token_index: Tensor
    """(t,) int64, place of each token in the step's stream."""
    scores: Mapping[str, Tensor] = field(default_factory=lambda: {})
    """As in `StepBatch`: (t,) float32."""
    made: Mapping[str, Tensor] = field(default_factory=lambda: {})
    """Stage to (t,), as in `UpdatePlan`."""
    support: SupportTensors | None = None
    """Not None: log-probabilities are renormalised over it, or the learner refuses the batch."""
    routed_experts: Tensor | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateOutcome:
    """What the learner computed in one update, per token of the step's stream (NaN or 0 where it computed nothing)."""

    update: int
    proximal: NDArray[np.float32] | None
    """(T,) None: the objective runs in bypass mode."""
    current: NDArray[np.float32] | None
    """(T,) None: equal to proximal, bit for bit (one update a step)."""
    reference: NDArray[np.float32] | None
    entropy: NDArray[np.float32] | None
    """(T,) nats, full vocabulary, at the segment's temperature."""
    correction: NDArray[np.float32] | None
    """(T,) detached; None: 1 everywhere."""
    keep: NDArray[np.bool_]
    """(T,) True where the token stayed in the numerator."""
    flags: NDArray[np.uint16]
    """(T,) bits of `record.rows.Flag`."""
    token_losses: Mapping[str, NDArray[np.float64]]
    """Component to (T,) weighted loss terms; their sum over components and tokens is `loss`."""
    loss: float
    grad_norm: float
    """Before clipping."""
    learning_rate: float
    is_applied: bool
    """False where the update was skipped (no trainable token, non-finite gradient)."""
    skipped_reason: str | None
    coefficients: Mapping[str, float] = field(default_factory=lambda: {})
    """Component of each regularizer, and place of each controller that stands elsewhere, to the number in effect."""
    update_norm: float | None = None
    """Norm of the change of the weights; None where nobody measured it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReferenceScores:
    """A batch under a frozen model, for metrics alone: no loss, receipt or weight knows of them."""

    logprobs: NDArray[np.float32]
    """(T,) nats; NaN where the token is not trained."""
    weight_bytes: int
    """Memory that the frozen weights hold beside those that train."""
