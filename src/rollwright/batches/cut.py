"""From an update's rows to micro-batches: whole rows, packed without padding, by a budget of distinct tokens."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.batches.filling import Counted, fill
from rollwright.batches.layout import MicroBatch, StepBatch, SupportTensors, UpdatePlan
from rollwright.batches.places import token_places

__all__ = ["cut"]


def cut(
    plan: UpdatePlan,
    *,
    token_budget: int,
    device: torch.device | str = "cpu",
    counted: Counted = Counted.DISTINCT,
) -> tuple[MicroBatch, ...]:
    """Pack the rows that hold trained tokens, those of a group together where they fit.

    Args:
        plan: an update.
        token_budget: of a micro-batch; a longer row stands alone, since rows are never split.
        device: where the tensors go.
        counted: what the budget counts: distinct tokens, or those of all rows.

    Returns:
        Micro-batches in a fixed order; none where the update trains nothing. Their loss terms only add up.
    """
    batch = plan.batch
    before = np.concatenate([np.zeros(1, np.int64), np.cumsum(batch.action_mask)])
    rows = np.asarray(plan.rows, np.int64)
    starts, ends = batch.row_offsets[rows], batch.row_offsets[rows + 1]
    trained = before[ends] > before[starts]
    rows, bounds = rows[trained], np.stack([starts[trained], ends[trained]], axis=1)
    parts = fill(batch.token_ids, bounds, batch.facts.group_index[rows], token_budget, counted)
    return tuple(_pack(plan, tuple(rows[list(part)].tolist()), torch.device(device)) for part in parts)


def _pack(plan: UpdatePlan, rows: tuple[int, ...], device: torch.device) -> MicroBatch:
    batch = plan.batch
    offsets, index = token_places(batch.row_offsets, rows)
    positions = np.arange(len(index), dtype=np.int64) - np.repeat(offsets[:-1], np.diff(offsets))
    mask = batch.action_mask[index]

    def on_device(values: NDArray[np.generic], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).to(device)

    targets = batch.value_targets
    return MicroBatch(
        rows=rows,
        token_ids=on_device(batch.token_ids[index], torch.int64),
        position_ids=on_device(positions, torch.int64),
        row_offsets=on_device(offsets, torch.int64),
        action_mask=on_device(mask, torch.bool),
        advantages=on_device(np.where(mask, batch.advantages[index], 0.0), torch.float32),
        temperature=on_device(batch.temperature[index], torch.float32),
        behavior=on_device(batch.behavior[index], torch.float32),
        policy_versions=on_device(batch.policy_versions[index], torch.int32),
        token_weights={name: on_device(w[index], torch.float64) for name, w in plan.token_weights.items()},
        value_targets=None if targets is None else on_device(targets[index], torch.float32),
        token_index=on_device(index, torch.int64),
        scores={name: on_device(stream[index], torch.float32) for name, stream in batch.scores.items()},
        made={name: torch.tensor(stream[index]).to(device) for name, stream in plan.made.items()},
        support=_support(batch, index, device),
        routed_experts=None if batch.routed_experts is None else on_device(batch.routed_experts[index], torch.int64),
    )


def _support(batch: StepBatch, index: NDArray[np.int64], device: torch.device) -> SupportTensors | None:
    """The ids that each token of the cut was drawn among."""
    support = batch.support
    if support is None:
        return None
    starts = support.offsets[index]
    counts = support.offsets[index + 1] - starts
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    places = np.arange(int(offsets[-1]), dtype=np.int64) - np.repeat(offsets[:-1] - starts, counts)
    return SupportTensors(
        offsets=torch.tensor(offsets).to(device),
        token_ids=torch.tensor(support.token_ids[places], dtype=torch.int64).to(device),
    )
