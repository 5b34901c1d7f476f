"""Ways to part the trained tokens of an update: source, length, sign of the advantage, kind of action, lag."""

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.diagnostics.updates import Strata
from rollwright.batches.layout import StepBatch, UpdatePlan
from rollwright.batches.places import token_places

__all__ = ["strata_of"]

_LENGTHS: Final = (128, 512, 2048, 8192)
"""Largest number of trained tokens of a row in each bucket but the last."""
_LAGS: Final = (0, 1, 2, 4, 8)
"""Largest lag of each bucket but the last, steps."""
_KINDS: Final = ("reasoning", "answer", "tool_call", "stop", "other")


def strata_of(plan: UpdatePlan) -> tuple[Strata, ...]:
    """Every trained token of an update in one stratum of each kind.

    Args:
        plan: the update.

    Returns:
        Five partitions of its N trained tokens, in the order of the step's stream.
    """
    batch = plan.batch
    offsets, places = token_places(batch.row_offsets, plan.rows)
    is_trained = batch.action_mask[places]
    tokens = places[is_trained]
    row = np.repeat(np.arange(len(plan.rows)), np.diff(offsets))[is_trained]
    lengths = np.bincount(row, minlength=len(plan.rows))
    sources = batch.facts.source_index[list(plan.rows)]
    signs = np.sign(batch.advantages[tokens]).astype(np.int64) + 1
    versions = batch.policy_versions[tokens].astype(np.int64)
    lags = np.where(versions < 0, len(_LAGS) + 1, np.searchsorted(_LAGS, batch.step - 1 - versions))
    return (
        _strata("source", _sources(batch), sources[row]),
        _strata("length", _buckets(_LENGTHS, first=1), np.searchsorted(_LENGTHS, lengths)[row]),
        _strata("advantage", ("negative", "zero", "positive"), signs),
        _strata("action", _KINDS, _kinds(plan)[tokens]),
        _strata("lag", (*_buckets(_LAGS, first=0), "unsampled"), lags),
    )


def _strata(label: str, names: tuple[str, ...], index: NDArray[np.integer]) -> Strata:
    return Strata(label=label, names=names, index=torch.tensor(index.astype(np.int64)))


def _sources(batch: StepBatch) -> tuple[str, ...]:
    """In the order of their numbers in the batch's facts."""
    return tuple(sorted({member.trajectory.task.source for member in batch.members}))


def _buckets(ends: tuple[int, ...], *, first: int) -> tuple[str, ...]:
    """Names such as 1-128, 129-512, …, over 8192."""
    starts = (first, *(end + 1 for end in ends[:-1]))
    names = (str(end) if start == end else f"{start}-{end}" for start, end in zip(starts, ends, strict=True))
    return (*names, f"over {ends[-1]}")


def _kinds(plan: UpdatePlan) -> NDArray[np.int8]:
    """(T,) place in `_KINDS` of every token of the update's rows, by the spans of its segment."""
    batch = plan.batch
    found = np.full(len(batch.token_ids), _KINDS.index("other"), np.int8)
    for number in plan.rows:
        row = batch.rows[number]
        segments = batch.members[row.member].trajectory.segments
        for segment in (segments[owned] for owned in row.owns):
            start = int(batch.row_offsets[number]) + segment.start
            for span in segment.spans or ():
                kind = span.kind if span.kind in _KINDS else "other"
                found[start + span.token_start : start + span.token_end] = _KINDS.index(kind)
    return found
