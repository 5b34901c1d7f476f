"""One step of learning: a batch of groups becomes updates, their receipts and their metrics."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms import Objective
from rollwright.algorithms.controllers import advance_memories, memories_of
from rollwright.batches import (
    BatchRules,
    ReferenceScores,
    StepBatch,
    UpdateOutcome,
    UpdatePlan,
    batch_metrics,
    credit_inputs,
    give_credit,
    lay_out,
    receipts_of,
    update_metrics,
)
from rollwright.record import Group, Metric
from rollwright.record.codec import ReceiptTable
from rollwright.runtime.parts import Learner

__all__ = ["Learned", "Lesson", "learn", "queue_metrics", "reference_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What is learned from a batch, and how."""

    objective: Objective
    eligible: frozenset[tuple[str, str | None]]
    rules: BatchRules
    success_at: float
    measures_reference: bool = False
    """Whether metrics compare the policy with the frozen reference, which the objective does not read."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Learned:
    """What a step of learning came to."""

    updates: Sequence[tuple[UpdatePlan, UpdateOutcome]]
    receipts: ReceiptTable
    metrics: tuple[Metric, ...]
    seconds: float


def learn(
    learner: Learner,
    lesson: Lesson,
    groups: Sequence[Group],
    *,
    step: int,
    first_update: int,
    now: Callable[[], datetime],
) -> Learned:
    """Make the updates of a step; blocks, and runs in the learner's thread.

    Args:
        learner: makes them.
        lesson: by what objective, from which tokens.
        groups: the batch.
        step: that they belong to.
        first_update: number of its first update, counted over the run.
        now: stamps the metrics.
    """
    began = time.monotonic()
    waited = queue_metrics(groups, step=step, now=now())
    objective = lesson.objective
    draft = lay_out(groups, step=step, eligible=lesson.eligible, rules=lesson.rules)
    batch = give_credit(learner.score_before_credit(draft, objective), objective, rules=lesson.rules)
    if memories_of(objective):
        # Before the updates, which may move a coefficient inside the credit: they take in what the credit saw.
        advance_memories(objective, credit_inputs(batch, range(len(batch.rows)), batch.acts))
    outcome = learner.train(batch, objective, first_update=first_update)
    receipts: list[ReceiptTable] = []
    metrics: list[Metric] = [*batch_metrics(batch, success_at=lesson.success_at, now=now()), *waited]
    reference: NDArray[np.float32] | None = None
    if lesson.measures_reference:
        asked = time.monotonic()
        scores = learner.score_reference(batch)
        metrics += reference_metrics(scores, batch, seconds=time.monotonic() - asked, now=now())
        reference = scores.logprobs
    for plan, update in outcome:
        receipts.append(receipts_of(plan, update, objective))
        metrics += update_metrics(plan, update, objective, now=now(), success_at=lesson.success_at, reference=reference)
    return Learned(
        updates=outcome,
        receipts=ReceiptTable.joined(receipts),
        metrics=tuple(metrics),
        seconds=time.monotonic() - began,
    )


def queue_metrics(groups: Sequence[Group], *, step: int, now: datetime) -> tuple[Metric, ...]:
    """How long the episodes of a batch waited from their end to their training: mean and longest.

    Args:
        groups: of the batch.
        step: that trains them.
        now: when it begins.
    """
    waits = [max(0.0, (now - m.trajectory.ended_at).total_seconds()) for group in groups for m in group.members]
    found = {"mean": sum(waits) / len(waits), "max": max(waits)} if waits else {"mean": None, "max": None}
    return tuple(
        Metric(
            step=step,
            update=0,
            name="stale/queue_age",
            value=value,
            unit="s",
            labels={"stat": stat},
            num_items=len(waits),
            recorded_at=now,
        )
        for stat, value in found.items()
    )


def reference_metrics(
    scores: ReferenceScores, batch: StepBatch, *, seconds: float, now: datetime
) -> tuple[Metric, ...]:
    """What it cost to compare a step's policy with a frozen reference that the objective does not read.

    Args:
        scores: of the reference.
        batch: of the step.
        seconds: that scoring took.
        now: their time stamp.
    """
    costs = {"time/reference": (seconds, "s"), "memory/reference": (float(scores.weight_bytes), "bytes")}
    return tuple(
        Metric(
            step=batch.step,
            update=0,
            name=name,
            value=value,
            unit=unit,
            labels={"model": batch.model},
            num_items=int(batch.action_mask.sum()),
            recorded_at=now,
        )
        for name, (value, unit) in costs.items()
    )
