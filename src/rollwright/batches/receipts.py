"""Receipts: what one update did with each eligible segment of its rows, for each component of the loss.

Withheld and empty segments have theirs too: weight 0, and the reason. The log-probability streams stand once an
update, on the main component's receipt; they are null where a withheld segment was never scored.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.objective import Objective
from rollwright.algorithms.staleness.lag import lag_of
from rollwright.batches.layout import BatchRow, StepBatch, UpdateOutcome, UpdatePlan
from rollwright.batches.updates import components_of
from rollwright.record import EligibleRow, Flag, Receipt, Runs, Segment
from rollwright.record.run_length import run_lengths

__all__ = ["eligible_rows", "receipts_of"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Entry:
    """An owned segment of the update."""

    row: int
    segment: Segment
    start: int
    stop: int

    @property
    def tokens(self) -> slice:
        return slice(self.start, self.stop)


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
class _Counts:
    """Tokens of each entry."""

    eligible: list[int]
    trained: list[int]
    kept: list[int]


def receipts_of(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> tuple[Receipt, ...]:
    """One receipt for each eligible segment of the update's rows and each component.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its components.

    Returns:
        Receipts by row, segment and component, the main component first.
    """
    entries = _entries(plan)
    applied = _apply(plan, outcome, objective.component)
    regularizers = [regularizer.component for regularizer in objective.regularizers]
    counts = _count(plan.batch, applied, entries)
    parts = [_main_receipts(plan, outcome, entries, applied, counts)]
    parts.extend(_regularizer_receipts(plan, outcome, entries, counts, name) for name in regularizers)
    return tuple(receipt for of_segment in zip(*parts, strict=True) for receipt in of_segment)


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
    for row in plan.rows:
        segments = batch.members[batch.rows[row].member].trajectory.segments
        offset = int(batch.row_offsets[row])
        for number in batch.rows[row].owns:
            segment = segments[number]
            start = offset + segment.start
            entries.append(_Entry(row=row, segment=segment, start=start, stop=start + segment.num_tokens))
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


def _count(batch: StepBatch, applied: _Applied, entries: Sequence[_Entry]) -> _Counts:
    starts, stops = [entry.start for entry in entries], [entry.stop for entry in entries]

    def counted(mask: NDArray[np.bool_]) -> list[int]:
        before = np.append(0, np.cumsum(mask))
        return (before[stops] - before[starts]).tolist() if entries else []

    return _Counts(eligible=counted(batch.acts), trained=counted(applied.trained), kept=counted(applied.kept))


def _main_receipts(
    plan: UpdatePlan, outcome: UpdateOutcome, entries: Sequence[_Entry], applied: _Applied, counts: _Counts
) -> list[Receipt]:
    batch, component = plan.batch, applied.component
    spans = [(entry.start, entry.stop) for entry in entries]
    advantages = run_lengths(batch.advantages.astype(np.float32), spans)
    weights = run_lengths(plan.token_weights[component], spans)
    flags = run_lengths(_flags(batch, outcome, applied, entries), spans)
    corrections = _corrections(outcome, applied, spans)
    log_ratios, losses = _log_ratios(batch, outcome), outcome.token_losses.get(component)
    scores = [_stored(stream) for stream in (outcome.proximal, outcome.current, outcome.reference)]
    taught = [_stored(s) for s in (batch.scores.get("teacher"), batch.scores.get("predicted"), batch.value_targets)]
    receipts: list[Receipt] = []
    for index, entry in enumerate(entries):
        withheld = _withheld_reason(batch.rows[entry.row], entry)
        # A withheld segment was not scored: null, not NaN.
        proximal, current, reference = (_slice(stream if withheld is None else None, entry) for stream in scores)
        teacher, predicted, targets = (_slice(stream, entry) for stream in taught)
        kept = applied.kept[entry.tokens] if counts.kept[index] else None
        receipts.append(
            Receipt(
                step=batch.step,
                update=plan.update,
                model=batch.model,
                component=component,
                trajectory_id=batch.members[batch.rows[entry.row].member].trajectory_id,
                segment=entry.segment.segment,
                row_index=entry.row,
                lag=_lag(batch, entry.segment),
                num_eligible=counts.eligible[index],
                num_kept=counts.kept[index],
                untrained_reason=withheld or _main_reason(batch, entry, counts, index),
                advantage=advantages[index],
                token_weight=weights[index],
                correction=corrections[index],
                flags=flags[index],
                proximal_logprobs=proximal,
                current_logprobs=current,
                reference_logprobs=reference,
                teacher_logprobs=teacher,
                predicted_values=predicted,
                value_targets=targets,
                entropy=_mean(outcome.entropy, entry, kept),
                max_log_ratio=_largest(log_ratios, entry, kept),
                loss=0.0 if losses is None else float(losses[entry.tokens].sum()),
                influence=float(applied.moved[entry.tokens].sum()),
            )
        )
    return receipts


def _regularizer_receipts(
    plan: UpdatePlan, outcome: UpdateOutcome, entries: Sequence[_Entry], counts: _Counts, component: str
) -> list[Receipt]:
    """A regularizer acts on all trained tokens; it has no advantage, and so no influence."""
    batch = plan.batch
    weights = run_lengths(plan.token_weights[component], [(entry.start, entry.stop) for entry in entries])
    losses = outcome.token_losses.get(component)
    return [
        Receipt(
            step=batch.step,
            update=plan.update,
            model=batch.model,
            component=component,
            trajectory_id=batch.members[batch.rows[entry.row].member].trajectory_id,
            segment=entry.segment.segment,
            row_index=entry.row,
            lag=_lag(batch, entry.segment),
            num_eligible=counts.eligible[index],
            num_kept=counts.trained[index] if outcome.is_applied else 0,
            untrained_reason=_withheld_reason(batch.rows[entry.row], entry),
            advantage=None,
            token_weight=weights[index],
            correction=None,
            flags=None,
            proximal_logprobs=None,
            current_logprobs=None,
            loss=0.0 if losses is None else float(losses[entry.tokens].sum()),
            influence=0.0,
        )
        for index, entry in enumerate(entries)
    ]


def _flags(
    batch: StepBatch, outcome: UpdateOutcome, applied: _Applied, entries: Sequence[_Entry]
) -> NDArray[np.uint16]:
    """(T,) the learner's bits on trained tokens, and the planner's own."""
    flags = np.where(applied.trained, outcome.flags, np.uint16(0)).astype(np.uint16)
    flags[applied.trained & (batch.advantages == 0)] |= np.uint16(Flag.ZERO_ADVANTAGE)
    bits = {"stale": Flag.STALE, "truncated": Flag.TRUNCATION_MASK, "rejected": Flag.SEQUENCE_MASK}
    for entry in entries:
        reason = _withheld_reason(batch.rows[entry.row], entry)
        if reason in bits:
            flags[entry.tokens] |= np.uint16(bits[reason])
    return flags


def _corrections(outcome: UpdateOutcome, applied: _Applied, spans: Sequence[tuple[int, int]]) -> Sequence[Runs | None]:
    if outcome.correction is None:
        return [None] * len(spans)
    return run_lengths(np.where(applied.trained, outcome.correction, np.float32(1)), spans)


def _withheld_reason(row: BatchRow, entry: _Entry) -> str | None:
    return "stale" if entry.segment.segment in row.stale_segments else row.withheld


def _main_reason(batch: StepBatch, entry: _Entry, counts: _Counts, index: int) -> str | None:
    """Why all of a segment that is not withheld is untrained."""
    if entry.row in batch.untrained and not batch.advantages[entry.tokens].any():
        return batch.untrained[entry.row]
    return "rejected" if counts.trained[index] and not counts.kept[index] else None


def _lag(batch: StepBatch, segment: Segment) -> int:
    version = segment.policy_version
    return 0 if version is None else lag_of(version, learner_version=batch.step - 1)


def _log_ratios(batch: StepBatch, outcome: UpdateOutcome) -> NDArray[np.float64] | None:
    """(T,) |current - behavior|, or of proximal where they are equal: how far the token is off-policy in all."""
    current = outcome.proximal if outcome.current is None else outcome.current
    return None if current is None else np.abs(current.astype(np.float64) - batch.behavior)


def _stored(stream: NDArray[np.float32] | NDArray[np.float64] | None) -> NDArray[np.float32] | None:
    """A stream as receipts store it: a copy, read-only, of which each has its part."""
    if stream is None:
        return None
    values = stream.astype(np.float32)
    values.flags.writeable = False
    return values


def _slice(stream: NDArray[np.float32] | None, entry: _Entry) -> NDArray[np.float32] | None:
    return None if stream is None else stream[entry.start : entry.stop]


def _mean(stream: NDArray[np.float32] | None, entry: _Entry, kept: NDArray[np.bool_] | None) -> float | None:
    if stream is None or kept is None:
        return None
    values = stream[entry.tokens][kept].astype(np.float64)
    return float(np.add.reduce(values)) / len(values)


def _largest(stream: NDArray[np.float64] | None, entry: _Entry, kept: NDArray[np.bool_] | None) -> float | None:
    if stream is None or kept is None:
        return None
    largest = float(np.maximum.reduce(stream[entry.tokens][kept]))
    return largest if largest == largest else None
