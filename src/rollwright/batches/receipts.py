"""Receipts: what one update did with each eligible segment of its rows, for each component of the loss.

Withheld and empty segments have theirs too: weight 0, and the reason. The log-probability streams stand once an
update, on the main component's receipt; they are null where a withheld segment was never scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.objective import Objective
from rollwright.algorithms.staleness.lag import lag_of
from rollwright.batches.layout import StepBatch, UpdateOutcome, UpdatePlan
from rollwright.batches.spans import counts_in, largest_of_spans, sums_of_spans
from rollwright.batches.updates import components_of
from rollwright.record import EligibleRow, Flag, Segment
from rollwright.record.arrays import lists_of
from rollwright.record.codec import ReceiptTable
from rollwright.record.columns import Values
from rollwright.record.run_length import run_lengths

__all__ = ["eligible_rows", "receipts_of"]


class _Entry(NamedTuple):
    """An owned segment of the update."""

    row: int
    segment: Segment
    start: int
    stop: int
    withheld: str | None
    """Why nothing of it is trained, by a rule."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Applied:
    """What an update really used, over the step's stream."""

    component: str
    """The main one."""
    trained: NDArray[np.bool_]
    """(T,) of this update's rows."""
    kept: NDArray[np.bool_]
    """(T,) within `trained`; nothing where the update was skipped."""
    moved: NDArray[np.float64]
    """(T,) |weight·correction·advantage| of the main component on kept tokens."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Told:
    """One number for each entry."""

    eligible: list[int]
    trained: list[int]
    kept: list[int]
    advantaged: list[int]
    """Tokens with an advantage that is not 0."""
    influence: list[float]
    entropy: list[float | None]
    """Mean over kept tokens."""
    log_ratio: list[float | None]
    """Largest over kept tokens."""


def receipts_of(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> ReceiptTable:
    """One receipt for each eligible segment of the update's rows and each component.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.

    Returns:
        Receipts by row, segment and component, the main component first.
    """
    entries = _entries(plan)
    spans = np.array([(entry.start, entry.stop) for entry in entries], np.int64).reshape(-1, 2)
    applied = _apply(plan, outcome, objective.component)
    told = _tell(plan.batch, outcome, applied, spans)
    shared = _shared_columns(plan, entries, told)
    main = _main_columns(plan.batch, outcome, entries, spans, applied, told)
    other = _regularizer_columns(outcome, entries, told)
    own = {objective.component: main} | {regularizer.component: other for regularizer in objective.regularizers}
    parts = [
        ReceiptTable.of_columns(shared | _component_columns(plan, outcome, spans, name) | columns, len(entries))
        for name, columns in own.items()
    ]
    return ReceiptTable.interleaved(parts)


def eligible_rows(
    model: str, objective: Objective, eligible: frozenset[tuple[str, str | None]]
) -> tuple[EligibleRow, ...]:
    """What the manifest lists: every component trains every pair, in a fixed order."""
    pairs = sorted(eligible, key=lambda pair: (pair[0], pair[1] or ""))
    return tuple(
        EligibleRow(model=model, component=component, origin=origin, policy=policy)
        for component, _ in components_of(objective)
        for origin, policy in pairs
    )


def _entries(plan: UpdatePlan) -> tuple[_Entry, ...]:
    batch = plan.batch
    entries: list[_Entry] = []
    offsets = batch.row_offsets.tolist()
    for number in plan.rows:
        row = batch.rows[number]
        segments = batch.members[row.member].trajectory.segments
        for owned in row.owns:
            segment = segments[owned]
            start = offsets[number] + segment.start
            withheld = "stale" if owned in row.stale_segments else row.withheld
            entries.append(_Entry(number, segment, start, start + segment.num_tokens, withheld))
    return tuple(entries)


def _apply(plan: UpdatePlan, outcome: UpdateOutcome, component: str) -> _Applied:
    batch = plan.batch
    chosen = np.zeros(len(batch.rows), np.bool_)
    chosen[list(plan.rows)] = True
    trained = batch.action_mask & np.repeat(chosen, np.diff(batch.row_offsets))
    kept = trained & outcome.keep if outcome.is_applied else np.zeros_like(trained)
    moved = np.zeros(len(trained), np.float64)
    moved[kept] = np.abs(plan.token_weights[component][kept] * batch.advantages[kept])
    if outcome.correction is not None:
        moved[kept] *= np.abs(outcome.correction[kept].astype(np.float64))
    return _Applied(component=component, trained=trained, kept=kept, moved=moved)


def _tell(batch: StepBatch, outcome: UpdateOutcome, applied: _Applied, spans: NDArray[np.int64]) -> _Told:
    kept = counts_in(applied.kept, spans)
    before = np.append(0, np.cumsum(applied.kept))
    among_kept = before[spans]
    entropy = log_ratio = np.full(len(spans), np.nan)
    if outcome.entropy is not None:
        # Over nothing it is not read.
        sums = sums_of_spans(outcome.entropy[applied.kept].astype(np.float64), among_kept)
        entropy = sums / np.maximum(kept, 1)
    if (ratios := _log_ratios(batch, outcome, applied.kept)) is not None:
        log_ratio = largest_of_spans(ratios, among_kept)
    has_entropy = (kept > 0) & (outcome.entropy is not None)
    return _Told(
        eligible=counts_in(batch.acts, spans).tolist(),
        trained=counts_in(applied.trained, spans).tolist(),
        kept=kept.tolist(),
        advantaged=counts_in(batch.advantages != 0, spans).tolist(),
        influence=sums_of_spans(applied.moved, spans).tolist(),
        entropy=[value if has else None for value, has in zip(entropy.tolist(), has_entropy.tolist(), strict=True)],
        log_ratio=[value if value == value else None for value in log_ratio.tolist()],
    )


def _shared_columns(plan: UpdatePlan, entries: Sequence[_Entry], told: _Told) -> dict[str, Values]:
    """What the receipts of all components say alike."""
    batch, num = plan.batch, len(entries)
    return {
        "step": [batch.step] * num,
        "update": [plan.update] * num,
        "model": [batch.model] * num,
        "trajectory_id": _names(batch, entries),
        "segment": [entry.segment.segment for entry in entries],
        "row_index": [entry.row for entry in entries],
        "lag": _lags(batch, entries),
        "num_eligible": told.eligible,
    }


def _component_columns(
    plan: UpdatePlan, outcome: UpdateOutcome, spans: NDArray[np.int64], component: str
) -> dict[str, Values]:
    return {
        "component": [component] * len(spans),
        "token_weight": run_lengths(plan.token_weights[component], spans),
        "loss": _losses(outcome, component, spans),
    }


def _main_columns(
    batch: StepBatch,
    outcome: UpdateOutcome,
    entries: Sequence[_Entry],
    spans: NDArray[np.int64],
    applied: _Applied,
    told: _Told,
) -> dict[str, Values]:
    # A withheld segment was not scored: null, not NaN.
    is_scored = np.array([entry.withheld is None for entry in entries], np.bool_)
    columns: dict[str, Values] = {
        "num_kept": told.kept,
        "untrained_reason": [entry.withheld or _main_reason(batch, entry, told, i) for i, entry in enumerate(entries)],
        "advantage": run_lengths(batch.advantages.astype(np.float32), spans),
        "flags": run_lengths(_flags(batch, outcome, applied, entries), spans),
        "entropy": told.entropy,
        "max_log_ratio": told.log_ratio,
        "influence": told.influence,
    }
    if outcome.correction is not None:
        corrections = np.where(applied.trained, outcome.correction, np.float32(1))
        columns["correction"] = run_lengths(corrections, spans)
    scores = {
        "proximal_logprobs": outcome.proximal,
        "current_logprobs": outcome.current,
        "reference_logprobs": outcome.reference,
    }
    given = {
        "teacher_logprobs": batch.scores.get("teacher"),
        "predicted_values": batch.scores.get("predicted"),
        "value_targets": batch.value_targets,
    }
    columns |= {name: lists_of(s, spans, is_scored) for name, s in scores.items() if s is not None}
    columns |= {name: lists_of(s, spans) for name, s in given.items() if s is not None}
    return columns


def _regularizer_columns(outcome: UpdateOutcome, entries: Sequence[_Entry], told: _Told) -> dict[str, Values]:
    """A regularizer acts on all trained tokens; it has no advantage, and so no influence."""
    return {
        "num_kept": told.trained if outcome.is_applied else [0] * len(entries),
        "untrained_reason": [entry.withheld for entry in entries],
        "influence": [0.0] * len(entries),
    }


def _losses(outcome: UpdateOutcome, component: str, spans: NDArray[np.int64]) -> list[float]:
    losses = outcome.token_losses.get(component)
    return [0.0] * len(spans) if losses is None else sums_of_spans(losses, spans).tolist()


def _flags(
    batch: StepBatch, outcome: UpdateOutcome, applied: _Applied, entries: Sequence[_Entry]
) -> NDArray[np.uint16]:
    """(T,) the learner's bits on trained tokens, and the planner's own."""
    flags = np.where(applied.trained, outcome.flags, np.uint16(0)).astype(np.uint16)
    flags[applied.trained & (batch.advantages == 0)] |= np.uint16(Flag.ZERO_ADVANTAGE)
    bits = {"stale": Flag.STALE, "truncated": Flag.TRUNCATION_MASK, "rejected": Flag.SEQUENCE_MASK}
    for entry in entries:
        if entry.withheld in bits:
            flags[entry.start : entry.stop] |= np.uint16(bits[entry.withheld])
    return flags


def _main_reason(batch: StepBatch, entry: _Entry, told: _Told, index: int) -> str | None:
    """Why all of a segment that is not withheld is untrained."""
    if entry.row in batch.untrained and not told.advantaged[index]:
        return batch.untrained[entry.row]
    return "rejected" if told.trained[index] and not told.kept[index] else None


def _names(batch: StepBatch, entries: Sequence[_Entry]) -> list[str]:
    """Of the trajectory of each entry."""
    of_rows = [batch.members[row.member].trajectory.trajectory_id for row in batch.rows]
    return [of_rows[entry.row] for entry in entries]


def _lags(batch: StepBatch, entries: Sequence[_Entry]) -> list[int]:
    versions = [entry.segment.policy_version for entry in entries]
    lags = {v: 0 if v is None else lag_of(v, learner_version=batch.step - 1) for v in set(versions)}
    return [lags[version] for version in versions]


def _log_ratios(batch: StepBatch, outcome: UpdateOutcome, kept: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """|current - behavior| of kept tokens, of proximal where they are equal: how far each is off-policy in all."""
    current = outcome.proximal if outcome.current is None else outcome.current
    return None if current is None else np.abs(current[kept].astype(np.float64) - batch.behavior[kept])
