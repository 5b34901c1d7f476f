"""Ways to part the trained tokens of an update: what they are of, how they came out, how old they are."""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.diagnostics.updates import Strata
from rollwright.batches.buckets import LAG_NAMES, LENGTH_NAMES, RATE_NAMES, lag_places, length_places, rate_places
from rollwright.batches.layout import StepBatch, UpdatePlan
from rollwright.batches.places import token_places

__all__ = ["strata_of"]

_KINDS: Final = ("reasoning", "answer", "tool_call", "stop", "other")
_PLACES: Final = {kind: place for place, kind in enumerate(_KINDS)}
_OUTCOMES: Final = ("wrong", "right", "unscored")


def strata_of(plan: UpdatePlan, *, success_at: float) -> tuple[Strata, ...]:
    """Every trained token of an update in one stratum of each kind.

    Args:
        plan: the update.
        success_at: reward from which an episode is right, verifier units.

    Returns:
        Seven partitions of its N trained tokens, in the order of the step's stream: source, length of the row, sign of
        the advantage, kind of action, lag, outcome of the episode, and difficulty, which is the success rate of the
        prompt in this batch.
    """
    batch = plan.batch
    offsets, places = token_places(batch.row_offsets, plan.rows)
    is_trained = batch.action_mask[places]
    tokens = places[is_trained]
    row = np.repeat(np.arange(len(plan.rows)), np.diff(offsets))[is_trained]
    lengths = np.bincount(row, minlength=len(plan.rows))
    rows = list(plan.rows)
    signs = np.sign(batch.advantages[tokens]).astype(np.int64) + 1
    versions = batch.policy_versions[tokens].astype(np.int64)
    outcomes, rates = _outcomes(batch, success_at)
    members = np.array([batch.rows[number].member for number in rows], np.int64)
    return (
        _strata("source", _sources(batch), batch.facts.source_index[rows][row]),
        _strata("length", LENGTH_NAMES, length_places(lengths)[row]),
        _strata("advantage", ("negative", "zero", "positive"), signs),
        _strata("action", _KINDS, _kinds(plan)[tokens]),
        _strata("lag", LAG_NAMES, lag_places(np.where(versions < 0, -1, batch.step - 1 - versions))),
        _strata("outcome", _OUTCOMES, outcomes[members][row]),
        _strata("difficulty", RATE_NAMES, rate_places(rates[members])[row]),
    )


def _strata(label: str, names: tuple[str, ...], index: NDArray[np.integer]) -> Strata:
    return Strata(label=label, names=names, index=torch.tensor(index.astype(np.int64)))


def _sources(batch: StepBatch) -> tuple[str, ...]:
    """In the order of their numbers in the batch's facts."""
    return tuple(sorted({member.trajectory.task.source for member in batch.members}))


def _outcomes(batch: StepBatch, success_at: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Of each member: place in `_OUTCOMES`, and the share of its group's scored members that are right."""
    rewards = np.array([np.nan if isinstance(m.outcome, str) else float(m.outcome) for m in batch.members])
    is_scored, is_right = ~np.isnan(rewards), rewards >= success_at
    groups = np.unique([m.trajectory.group_id for m in batch.members], return_inverse=True)[1]
    num_scored = np.bincount(groups, weights=is_scored)
    num_right = np.bincount(groups, weights=is_right)
    rates = np.divide(num_right, num_scored, out=np.full(len(num_scored), np.nan), where=num_scored > 0)
    return np.where(is_scored, is_right, _OUTCOMES.index("unscored")).astype(np.int64), rates[groups]


def _kinds(plan: UpdatePlan) -> NDArray[np.int8]:
    """(T,) place in `_KINDS` of every token of the update's rows, by the spans of its segment."""
    batch = plan.batch
    other = _PLACES["other"]
    found = np.full(len(batch.token_ids), other, np.int8)
    offsets = batch.row_offsets.tolist()
    for number in plan.rows:
        row = batch.rows[number]
        segments = batch.members[row.member].trajectory.segments
        for segment in (segments[owned] for owned in row.owns):
            start = offsets[number] + segment.start
            for span in segment.spans or ():
                found[start + span.token_start : start + span.token_end] = _PLACES.get(span.kind, other)
    return found
