"""From a step's batch to its optimizer steps: which rows, and every weight made once on all of them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.algorithms.composition import kept_tokens
from rollwright.algorithms.denominators.plain import row_lengths
from rollwright.algorithms.objective import Objective, TokenStreams, WeightFn
from rollwright.algorithms.stages import make_stages
from rollwright.batches.credit_inputs import credit_inputs, logprobs_of, tokens_of
from rollwright.batches.errors import BatchError
from rollwright.batches.layout import StepBatch, UpdatePlan
from rollwright.batches.places import token_places
from rollwright.record.seeds import seed_of

__all__ = ["components_of", "minibatches", "plan_updates"]


def plan_updates(
    batch: StepBatch, objective: Objective, *, first_update: int, num_minibatches: int, num_epochs: int = 1
) -> tuple[UpdatePlan, ...]:
    """Split a step into updates and weigh each update's tokens, once, over all its rows.

    Ranks, accumulation and cuts then only sum: nothing is left to divide by. Withheld rows leave numerator and
    denominator; rows of a group without contrast stay in both. Streams that only a whole update can give are made here
    too; what they draw is a function of step and update, equal on every rank.

    Args:
        batch: a step's batch.
        objective: its weights and its regularizers' weights are made.
        first_update: number of the first of these updates.
        num_minibatches: whole groups where there are enough of them, else whole trajectories.
        num_epochs: passes over the same minibatches.

    Returns:
        `num_epochs * num_minibatches` plans.
    """
    keep = _kept(batch, objective)
    plans: list[UpdatePlan] = []
    for rows in minibatches(batch, num_minibatches):
        weighed = {name: _weigh(batch, rows, weights, keep) for name, weights in components_of(objective)}
        plans.append(
            UpdatePlan(
                batch=batch,
                update=0,
                rows=rows,
                token_weights={name: one[0] for name, one in weighed.items()},
                weight_sums={name: one[1] for name, one in weighed.items()},
                denominators={name: one[2] for name, one in weighed.items()},
            )
        )
    numbered = (replace(plan, update=update) for update, plan in enumerate(plans * num_epochs, start=first_update))
    return tuple(replace(plan, made=_made(plan, objective)) for plan in numbered)


def minibatches(batch: StepBatch, num_minibatches: int) -> tuple[tuple[int, ...], ...]:
    """Rows of each update: whole groups, or whole trajectories where groups are fewer than minibatches.

    Args:
        batch: a step's batch.
        num_minibatches: at most the number of trajectories.

    Returns:
        Row numbers, ascending; every row in exactly one. Earlier parts take the remainder.
    """
    if not 1 <= num_minibatches <= max(1, len(batch.members)):
        raise BatchError(
            f"{num_minibatches} minibatches of {len(batch.members)} trajectories; each needs at least one trajectory."
        )
    groups = np.unique(batch.facts.group_index)
    if len(groups) >= num_minibatches:
        units, of_row = groups, batch.facts.group_index
    else:
        units, of_row = np.arange(len(batch.members)), batch.facts.episode_index
    parts = np.array_split(units, num_minibatches)
    return tuple(tuple(np.flatnonzero(np.isin(of_row, part)).tolist()) for part in parts)


def components_of(objective: Objective) -> tuple[tuple[str, WeightFn], ...]:
    """The components of the loss with their denominators, the main one first."""
    parts = ((objective.component, objective.weights), *((r.component, r.weights) for r in objective.regularizers))
    names = [name for name, _ in parts]
    if len(set(names)) != len(names):
        raise BatchError(f"objective {objective.name} has components {names}; a receipt needs each name once.")
    return parts


def _weigh(
    batch: StepBatch, rows: Sequence[int], weights: WeightFn, keep: NDArray[np.bool_] | None
) -> tuple[NDArray[np.float64], float, float]:
    """(T,) weights, the sum that is due, and the denominator."""
    staying = tuple(row for row in rows if batch.rows[row].withheld is None)
    inputs = credit_inputs(batch, staying, batch.action_mask)
    tokens = tokens_of(batch, staying, batch.action_mask)
    kept = torch.tensor(keep[tokens]) if keep is not None and weights.counting == "kept" else None
    lengths = row_lengths(inputs, kept)
    stream = np.zeros(len(tokens), np.float64)
    stream[tokens] = weights(inputs, kept).numpy()
    return stream, weights.weight_sum(lengths), weights.denominator(lengths)


def _kept(batch: StepBatch, objective: Objective) -> NDArray[np.bool_] | None:
    """(T,) which tokens a correction keeps, where some denominator counts only those (M80)."""
    if all(weights.counting == "structural" for _, weights in components_of(objective)):
        return None
    if "proximal" not in batch.scores:
        raise BatchError(
            f"objective {objective.name} counts kept tokens, but the batch has no proximal log-probabilities to decide "
            "which; score it first and add them with with_score. Bypass mode cannot count kept tokens."
        )
    weights = np.zeros(len(batch.token_ids), np.float64)
    return kept_tokens(objective, _streams(batch, range(len(batch.rows)), weights)).keep.numpy()


def _made(plan: UpdatePlan, objective: Objective) -> Mapping[str, NDArray[np.generic]]:
    """What the objective's stages make of an update, on the step's stream."""
    if not objective.stages:
        return {}
    batch = plan.batch
    if missing := sorted(objective.needs & {"proximal", "reference", "teacher", "entropy"} - batch.scores.keys()):
        raise BatchError(
            f"the stages of objective {objective.name} look at whole updates before their gradients, but the batch has "
            f"no {missing}; score them first and add them with with_score."
        )
    streams = _streams(batch, plan.rows, plan.token_weights[objective.component])
    generator = torch.Generator().manual_seed(seed_of("stages", batch.step, plan.update))
    _, places = token_places(batch.row_offsets, plan.rows)
    made: dict[str, NDArray[np.generic]] = {}
    for name, stream in make_stages(objective, streams, generator).items():
        values = stream.numpy()
        made[name] = np.zeros(len(batch.token_ids), values.dtype)
        made[name][places] = values
    return made


def _streams(batch: StepBatch, rows: Sequence[int], weights: NDArray[np.float64]) -> TokenStreams:
    """The streams of some rows as they stand before an update: without current scores."""
    offsets, places = token_places(batch.row_offsets, rows)
    entropy = batch.scores.get("entropy")
    return TokenStreams(
        row_offsets=torch.tensor(offsets),
        action_mask=torch.tensor(batch.action_mask[places]),
        advantages=_float32(batch.advantages[places]),
        token_weights=torch.tensor(weights[places]),
        policy_versions=torch.tensor(batch.policy_versions[places]),
        logprobs={name: _float32(stream[places]) for name, stream in logprobs_of(batch).items()},
        values={},
        entropy=None if entropy is None else _float32(entropy[places]),
    )


def _float32(values: NDArray[np.floating]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)
