"""Advantages, weights, flags, corrections and losses of a step, made again and compared with its receipts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.controllers import advance_memories, controllers_of, memories_of
from rollwright.batches import (
    SegmentScores,
    StepBatch,
    UpdateOutcome,
    UpdatePlan,
    credit_inputs,
    give_credit,
    lay_out,
    outcome_of_scores,
    plan_updates,
    receipts_of,
)
from rollwright.evidence import Finding
from rollwright.recipes.build.terms import StageTerms
from rollwright.recipes.rechecking.steps import StoredStep
from rollwright.record import Receipt, Runs

__all__ = ["RebuiltUpdate", "rebuild", "receipt_findings"]

_SCORES = {
    "reference": "reference_logprobs",
    "teacher": "teacher_logprobs",
    "predicted": "predicted_values",
    "proximal": "proximal_logprobs",
}
_RELATIVE = 1e-5
"""Sums of 32-bit numbers in another order; what is computed in 64 bits agrees to 1e-9."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RebuiltUpdate:
    """One update as its recipe makes it from the stored scores."""

    plan: UpdatePlan
    outcome: UpdateOutcome
    receipts: Sequence[Receipt]
    """What would be stored of it."""
    stored: Mapping[tuple[str, str, int], Receipt]
    """By component, trajectory and segment."""
    has_scores: bool
    """False where the retention dropped them: then only credit and weights were made again."""


def rebuild(step: StoredStep, terms: StageTerms) -> Iterator[RebuiltUpdate]:
    """The updates of a step, made again.

    Args:
        step: as stored.
        terms: of its stage; a memory in its credit is moved on, so steps are asked in order.

    Raises:
        Exception: whatever the recipe's parts say of rows that they cannot take.
    """
    objective = terms.objective
    draft = lay_out(
        step.groups, step=step.step, eligible=terms.eligible, rules=terms.rules, scores=_scores(step, terms)
    )
    batch = give_credit(draft, objective, rules=terms.rules)
    if memories_of(objective):
        advance_memories(objective, credit_inputs(batch, range(len(batch.rows)), batch.acts))
    updates = sorted({r.update for r in step.receipts})
    plans = plan_updates(
        batch,
        objective,
        first_update=updates[0],
        num_minibatches=terms.num_minibatches,
        num_epochs=terms.num_epochs,
    )
    for plan in plans:
        of_update = {
            (r.component, r.trajectory_id, r.segment): r
            for r in step.receipts
            if r.update == plan.update and r.model == batch.model
        }
        if not of_update:
            continue
        has_scores = any(r.proximal_logprobs is not None or r.current_logprobs is not None for r in of_update.values())
        outcome = _outcome(plan, terms, of_update)
        yield RebuiltUpdate(
            plan=plan,
            outcome=outcome,
            receipts=receipts_of(plan, outcome, objective),
            stored=of_update,
            has_scores=has_scores,
        )


def receipt_findings(update: RebuiltUpdate, terms: StageTerms) -> Iterator[Finding]:
    """Where the receipts of an update are not what its recipe makes of the stored episodes and scores."""
    rebuilt = {(r.component, r.trajectory_id, r.segment): r for r in update.receipts}
    for key in sorted(rebuilt.keys() - update.stored.keys()):
        place = f"segments {key[1]} {key[2]}"
        yield _finding(place, f"update {update.plan.update} has no receipt of it for {key[0]}", "one")
    is_fixed = not controllers_of(terms.objective)
    for key in sorted(rebuilt.keys() & update.stored.keys()):
        due, said = rebuilt[key], update.stored[key]
        yield from _credit(due, said)
        yield from _weights(due, said)
        if update.has_scores:
            yield from _loss(due, said, is_main=key[0] == terms.objective.component, is_fixed=is_fixed)


def _scores(step: StoredStep, terms: StageTerms) -> list[SegmentScores]:
    """What the credit or the correction reads, from the receipts of the step's first pass."""
    wanted = terms.objective.reads | ({"proximal"} if terms.objective.weights.counting == "kept" else set[str]())
    found: dict[tuple[str, int, str], SegmentScores] = {}
    eligible = {
        (m.trajectory_id, s.segment)
        for g in step.groups
        for m in g.members
        for s in m.trajectory.segments
        if (s.origin, s.policy) in terms.eligible
    }
    for receipt in sorted(step.receipts, key=lambda r: r.update):
        for name, column in _SCORES.items():
            values: NDArray[np.float32] | None = {
                "reference_logprobs": receipt.reference_logprobs,
                "teacher_logprobs": receipt.teacher_logprobs,
                "predicted_values": receipt.predicted_values,
                "proximal_logprobs": receipt.proximal_logprobs,
            }[column]
            key = (receipt.trajectory_id, receipt.segment, name)
            if name in wanted and values is not None and key[:2] in eligible and key not in found:
                found[key] = SegmentScores(
                    trajectory_id=receipt.trajectory_id, segment=receipt.segment, name=name, values=values
                )
    return list(found.values())


def _outcome(plan: UpdatePlan, terms: StageTerms, stored: Mapping[tuple[str, str, int], Receipt]) -> UpdateOutcome:
    """What the recipe's loss says of the scores that the receipts hold."""
    names = ("proximal", "current", "reference")
    streams = {name: _stream(plan.batch, plan, stored, terms.objective.component, name) for name in names}
    held = {name: stream for name, stream in streams.items() if stream is not None}
    return outcome_of_scores(plan, terms.objective, held, is_applied=any(r.num_kept for r in stored.values()))


def _stream(
    batch: StepBatch,
    plan: UpdatePlan,
    stored: Mapping[tuple[str, str, int], Receipt],
    component: str,
    name: str,
) -> NDArray[np.float32] | None:
    """(T,) of what the receipts hold under a name, NaN where nothing; None where no receipt holds any."""
    values = np.full(len(batch.token_ids), np.nan, np.float32)
    is_there = False
    for row in plan.rows:
        segments = batch.members[batch.rows[row].member].trajectory.segments
        for number in batch.rows[row].owns:
            receipt = stored.get((component, batch.members[batch.rows[row].member].trajectory_id, number))
            held = None if receipt is None else _held(receipt, name)
            if held is not None and len(held) == segments[number].num_tokens:
                start = int(batch.row_offsets[row]) + segments[number].start
                values[start : start + len(held)] = held
                is_there = True
    return values if is_there else None


def _held(receipt: Receipt, name: str) -> NDArray[np.float32] | None:
    match name:
        case "proximal":
            return receipt.proximal_logprobs
        case "current":
            return receipt.current_logprobs
        case _:
            return receipt.reference_logprobs


def _credit(due: Receipt, said: Receipt) -> Iterator[Finding]:
    place = _place(said)
    for name, left, right in (
        ("row_index", due.row_index, said.row_index),
        ("lag", due.lag, said.lag),
        ("num_eligible", due.num_eligible, said.num_eligible),
    ):
        if left != right:
            yield _finding(place, f"{name} is {right}", f"{left}, by the recipe")
    withheld = {due.untrained_reason, said.untrained_reason}
    if due.untrained_reason != said.untrained_reason and "rejected" not in withheld:
        yield _finding(place, f"untrained_reason is {said.untrained_reason}", f"{due.untrained_reason}, by the recipe")
    yield from _runs(said, "advantage", due.advantage, said.advantage, relative=1e-6)


def _weights(due: Receipt, said: Receipt) -> Iterator[Finding]:
    yield from _runs(said, "token_weight", due.token_weight, said.token_weight, relative=1e-9)


def _loss(due: Receipt, said: Receipt, *, is_main: bool, is_fixed: bool) -> Iterator[Finding]:
    """What the scores give: flags, corrections, counts, loss and influence."""
    place = _place(said)
    if is_main:
        yield from _runs(said, "flags", due.flags, said.flags, relative=0)
        if due.correction is not None and said.correction is not None:
            yield from _runs(said, "correction", due.correction, said.correction, relative=_RELATIVE)
        elif (due.correction is None) != (said.correction is None):
            given = due.correction or said.correction
            if given is not None and not np.allclose(given.expand(), 1, rtol=_RELATIVE):
                text = "none is stored" if said.correction is None else "a correction is stored"
                yield _finding(place, f"correction: {text}", "the opposite, by the recipe")
        if due.num_kept != said.num_kept:
            yield _finding(place, f"num_kept is {said.num_kept}", f"{due.num_kept}, by the recipe")
        if not _is_close(due.influence, said.influence):
            yield _finding(place, f"influence is {said.influence:.9g}", f"{due.influence:.9g}, by the recipe")
    if is_fixed and said.num_kept and not _is_close(due.loss, said.loss, least=1e-7):
        yield _finding(place, f"loss is {said.loss:.9g}", f"{due.loss:.9g}, by the recipe")


def _runs(said: Receipt, name: str, due: Runs | None, given: Runs | None, *, relative: float) -> Iterator[Finding]:
    """The first token in which two streams differ."""
    if due is None or given is None:
        return
    left, right = due.expand().astype(np.float64), given.expand().astype(np.float64)
    if len(left) != len(right):
        return
    apart = ~np.isclose(left, right, rtol=relative, atol=relative * 1e-3, equal_nan=True)
    if apart.any():
        first = int(np.flatnonzero(apart)[0])
        more = f", and in {int(apart.sum()) - 1} more tokens of the segment" if apart.sum() > 1 else ""
        yield _finding(
            f"{said.trajectory_id}/{said.segment}/{first}",
            f"{name} is {right[first]:.9g} in update {said.update} for {said.component}{more}",
            f"{left[first]:.9g}, by the recipe",
        )


def _is_close(left: float, right: float, least: float = 1e-12) -> bool:
    return abs(left - right) <= _RELATIVE * max(abs(left), abs(right)) + least


def _place(receipt: Receipt) -> str:
    return f"receipts {receipt.update} {receipt.component} {receipt.trajectory_id} {receipt.segment}"


def _finding(place: str, text: str, expected: str) -> Finding:
    return Finding(place=place, text=text, expected=expected, concern="recipe")
