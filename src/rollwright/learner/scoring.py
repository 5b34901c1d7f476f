"""Streams of a batch under weights as they stand: what a model says of its tokens, before any update."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.batches import MicroBatch, UpdatePlan, cut
from rollwright.learner.forward import Scorer, deterministic
from rollwright.learner.logprobs import squared_masses
from rollwright.learner.ranks import sum_array

__all__ = ["MEASURES", "Measure", "score_streams"]

Measure = Literal["logprobs", "entropy", "squared_mass"]

MEASURES: Final[Mapping[str, Measure]] = {
    "proximal": "logprobs",
    "reference": "logprobs",
    "entropy": "entropy",
    "sum_squared_probabilities": "squared_mass",
}
"""Stream of a batch to what a model says of its tokens."""


def score_streams(
    scorer: Scorer, plans: Sequence[UpdatePlan], measures: Collection[Measure], *, token_budget: int
) -> Mapping[Measure, NDArray[np.float32]]:
    """Score the masked tokens of some rows without a gradient, in one pass over them.

    Args:
        scorer: the model.
        plans: this rank's rows, at least one plan; their cuts decide the last bits of a score.
        measures: what is wanted; nothing else is kept, and Σπ² is not computed for others.
        token_budget: of a micro-batch.

    Returns:
        (T,) each over the step's stream, of all ranks; NaN where no row has the token, or it is not masked in.
    """
    names = sorted(measures)
    device = scorer.model.device
    num_tokens = len(plans[0].batch.token_ids)
    found = np.zeros((len(names), num_tokens), np.float32)
    is_scored = np.zeros(num_tokens, np.uint8)
    with deterministic(device), torch.no_grad():
        for plan in plans:
            for micro in cut(plan, token_budget=token_budget, device=device, counted=scorer.counted):
                places = micro.action_mask.nonzero().squeeze(1)
                index = micro.token_index[places].cpu().numpy()
                measured = _measured(scorer, micro, places, measures)
                found[:, index] = torch.stack([measured[name] for name in names]).cpu().numpy()
                is_scored[index] = 1
    found, is_scored = sum_array(found, device), sum_array(is_scored, device)
    missing = np.float32(np.nan)
    return {
        name: np.where(is_scored.astype(np.bool_), stream, missing) for name, stream in zip(names, found, strict=True)
    }


def _measured(
    scorer: Scorer, micro: MicroBatch, places: Tensor, measures: Collection[Measure]
) -> Mapping[Measure, Tensor]:
    states = scorer.states(micro, places)
    scores = scorer.score_states(states, micro, places)
    found: dict[Measure, Tensor] = {"logprobs": scores.logprobs, "entropy": scores.entropy}
    if "squared_mass" in measures:
        head = scorer.head
        found["squared_mass"] = squared_masses(states, head.weight, micro.temperature[places], head.bias)
    return found
