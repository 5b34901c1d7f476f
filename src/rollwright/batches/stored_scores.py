"""An update's outcome from scores that were stored: what its loss made of them, without a model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.composition import loss_terms
from rollwright.algorithms.objective import Objective, TokenStreams
from rollwright.batches.layout import StepBatch, UpdateOutcome, UpdatePlan

__all__ = ["outcome_of_scores"]


def outcome_of_scores(
    plan: UpdatePlan, objective: Objective, scores: Mapping[str, NDArray[np.float32]], *, is_applied: bool
) -> UpdateOutcome:
    """What the loss of an update says of stored scores.

    Args:
        plan: the update.
        objective: its loss.
        scores: of proximal, current and reference those that were stored: (T,) nats, NaN where there is none. Without
            current the update was of one pass with proximal.
        is_applied: whether the update moved the weights.

    Returns:
        Flags, corrections, kept tokens and losses; no entropy, gradient or rate, which no score gives. Without scores
        every trained token is kept.
    """
    batch = plan.batch
    proximal, reference = scores.get("proximal"), scores.get("reference")
    current = scores.get("current", proximal)
    empty = UpdateOutcome(
        update=plan.update,
        proximal=proximal,
        current=None if current is proximal else current,
        reference=reference,
        entropy=None,
        correction=None,
        keep=batch.action_mask.copy(),
        flags=np.zeros(len(batch.token_ids), np.uint16),
        token_losses={},
        loss=0.0,
        grad_norm=0.0,
        learning_rate=0.0,
        is_applied=is_applied or current is None,
        skipped_reason=None,
    )
    if current is None or not np.isfinite(current).any():
        return empty
    weights = {name: torch.tensor(stream) for name, stream in plan.token_weights.items()}
    with torch.no_grad():
        terms = loss_terms(objective, _streams(plan, objective, {**scores, "current": current}), weights)
    correction = terms.correction.numpy().astype(np.float32)
    losses = {name: term.numpy() for name, term in terms.terms.items()}
    return replace(
        empty,
        correction=correction if (correction[batch.action_mask] != 1).any() else None,
        keep=terms.keep.numpy(),
        flags=terms.flags.numpy().astype(np.uint16),
        token_losses=losses,
        loss=float(sum(one.sum() for one in losses.values())),
    )


def _streams(plan: UpdatePlan, objective: Objective, scores: Mapping[str, NDArray[np.float32]]) -> TokenStreams:
    batch = plan.batch
    logprobs = {"behavior": batch.behavior, **scores}
    if "teacher" in batch.scores:
        logprobs["teacher"] = batch.scores["teacher"]
    return TokenStreams(
        row_offsets=torch.tensor(batch.row_offsets),
        action_mask=torch.tensor(batch.action_mask & _of_rows(batch, plan.rows)),
        advantages=torch.tensor(batch.advantages, dtype=torch.float32),
        token_weights=torch.tensor(plan.token_weights[objective.component]),
        policy_versions=torch.tensor(batch.policy_versions),
        logprobs={name: torch.tensor(stream, dtype=torch.float32) for name, stream in logprobs.items()},
        values={},
        entropy=torch.zeros(len(batch.token_ids)),
        made={name: torch.tensor(values) for name, values in plan.made.items()},
    )


def _of_rows(batch: StepBatch, rows: Sequence[int]) -> NDArray[np.bool_]:
    """(T,) the tokens of some rows."""
    chosen = np.zeros(len(batch.rows), np.bool_)
    chosen[list(rows)] = True
    return np.repeat(chosen, np.diff(batch.row_offsets))
