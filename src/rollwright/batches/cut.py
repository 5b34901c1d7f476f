"""From an update's rows to micro-batches: whole rows, packed without padding, by a token budget."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.batches.errors import BatchError
from rollwright.batches.layout import MicroBatch, StepBatch, SupportTensors, UpdatePlan
from rollwright.batches.places import token_places

__all__ = ["cut", "cut_rows"]


def cut(plan: UpdatePlan, *, token_budget: int, device: torch.device | str = "cpu") -> tuple[MicroBatch, ...]:
    """Pack the rows that hold trained tokens, longest first.

    Args:
        plan: an update.
        token_budget: tokens of a micro-batch; a longer row stands alone, since rows are never split.
        device: where the tensors go.

    Returns:
        Micro-batches in a fixed order; none where the update trains nothing. Their loss terms only add up.
    """
    mask = plan.batch.action_mask
    offsets = plan.batch.row_offsets
    trained = [row for row in plan.rows if mask[offsets[row] : offsets[row + 1]].any()]
    lengths = np.diff(offsets)[trained]
    parts = cut_rows(lengths, token_budget)
    return tuple(_pack(plan, tuple(trained[place] for place in part), torch.device(device)) for part in parts)


def cut_rows(lengths: NDArray[np.int64], token_budget: int) -> tuple[tuple[int, ...], ...]:
    """Sort rows by length, longest first, equal ones in order, and fill micro-batches one after the other.

    Args:
        lengths: (R,) tokens of each row.
        token_budget: at least 1.

    Returns:
        Places in `lengths`; every place in exactly one part, and no part above the budget but a single long row.
    """
    if token_budget < 1:
        raise BatchError(f"the token budget of a micro-batch is {token_budget}; it needs at least 1.")
    parts: list[list[int]] = []
    room = 0
    for place in np.argsort(-lengths, kind="stable").tolist():
        length = int(lengths[place])
        if not parts or length > room:
            parts.append([])
            room = token_budget
        parts[-1].append(place)
        room -= length
    return tuple(tuple(part) for part in parts)


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
