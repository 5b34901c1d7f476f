"""What credit and weights take: the facts of rows and of their masked tokens, as host tensors."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rollwright.algorithms.objective import CreditInputs
from rollwright.batches.layout import StepBatch
from rollwright.record.seeds import seed_of

__all__ = ["credit_inputs", "logprobs_of", "source_number", "tokens_of"]

_TOKEN_VALUES = frozenset({"predicted", "entropy", "sum_squared_probabilities"})
"""Scores of tokens that are no log-probabilities."""


def credit_inputs(batch: StepBatch, rows: Sequence[int], mask: NDArray[np.bool_]) -> CreditInputs:
    """The facts of some rows and of their masked tokens, as host tensors.

    Args:
        batch: a step's batch.
        rows: ascending row numbers.
        mask: (T,) bool: `acts` for credit, `action_mask` for weights.

    Returns:
        R = len(rows) rows in that order, with the N of their tokens that the mask has.
    """
    facts = batch.facts
    index = np.asarray(rows, np.int64)
    tokens = tokens_of(batch, rows, mask)
    running = np.concatenate([np.zeros(1, np.int64), np.cumsum(tokens)])
    counts = running[batch.row_offsets[index + 1]] - running[batch.row_offsets[index]]
    values = {name: _tensor(stream[tokens]) for name, stream in batch.scores.items() if name in _TOKEN_VALUES}
    if facts.bootstrap is not None:
        values["bootstrap"] = _tensor(facts.bootstrap[index])
    return CreditInputs(
        rewards=_tensor(facts.rewards[index]),
        group_index=torch.tensor(facts.group_index[index]),
        source_index=torch.tensor(_source_numbers(batch)[facts.source_index[index]]),
        episode_index=torch.tensor(facts.episode_index[index]),
        row_offsets=torch.tensor(np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])),
        is_truncated=torch.tensor(facts.is_truncated[index]),
        step_rewards=_tensor(facts.step_rewards[tokens]),
        turn_index=torch.tensor(facts.turn_index[tokens]),
        state_index=torch.tensor(facts.state_index[tokens]),
        logprobs={name: _tensor(stream[tokens]) for name, stream in logprobs_of(batch).items()},
        values=values,
        keys=_keys(batch, rows),
    )


def source_number(name: str) -> int:
    """The number of a task source in `CreditInputs`: the same in every batch and every run, whatever else is there."""
    return seed_of("source", name)


def logprobs_of(batch: StepBatch) -> Mapping[str, NDArray[np.float32]]:
    """(T,) log-probabilities by name: behavior, and those among the scores."""
    return {"behavior": batch.behavior, **{n: s for n, s in batch.scores.items() if n not in _TOKEN_VALUES}}


def tokens_of(batch: StepBatch, rows: Sequence[int], mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(T,) bool: the masked tokens of some rows."""
    chosen = np.zeros(len(batch.rows), np.bool_)
    chosen[list(rows)] = True
    return mask & np.repeat(chosen, np.diff(batch.row_offsets))


def _source_numbers(batch: StepBatch) -> NDArray[np.int64]:
    """Numbers of the batch's sources, in their alphabetical order."""
    names = sorted({member.trajectory.task.source for member in batch.members})
    return np.asarray([source_number(name) for name in names], np.int64)


def _tensor(values: NDArray[np.floating]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


class _Numbers(dict[tuple[str, str], int]):
    """The number of each thing by its kind and name, made when it is first asked for."""

    def __missing__(self, key: tuple[str, str]) -> int:
        self[key] = found = seed_of(*key)
        return found


def _keys(batch: StepBatch, rows: Sequence[int]) -> Mapping[str, torch.Tensor]:
    """(R,) what comparison groups may be made of, the same numbers in every batch.

    The role is the actor of the row's leaf. The parent is the call that opened the row's context, or else the
    trajectory that this one came from; -1 where there is neither, so that all such rows share a parent.
    """
    numbered = _Numbers()
    trajectories = [batch.members[batch.rows[row].member].trajectory for row in rows]
    leaves = [t.segments[batch.rows[row].segments[-1]] for row, t in zip(rows, trajectories, strict=True)]
    opened = [t.segments[batch.rows[row].segments[0]] for row, t in zip(rows, trajectories, strict=True)]
    parents = [
        (s.spawned_by and f"{t.trajectory_id}/{s.spawned_by}") or t.parent_trajectory_id
        for s, t in zip(opened, trajectories, strict=True)
    ]
    numbers = {
        "task": [numbered["task", t.task.task_id] for t in trajectories],
        "role": [numbered["role", s.actor] for s in leaves],
        "parent": [-1 if parent is None else numbered["parent", parent] for parent in parents],
    }
    return {name: torch.tensor(of_rows, dtype=torch.int64) for name, of_rows in numbers.items()}
