"""What the metrics of an update are made of: its trained tokens with all that was computed of them."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.algorithms.diagnostics.token_measures import Banded, TokenMeasures, measure_tokens
from rollwright.algorithms.objective import Objective, TokenStreams
from rollwright.batches.layout import UpdateOutcome, UpdatePlan
from rollwright.batches.places import token_places

__all__ = ["measures_of"]


def measures_of(plan: UpdatePlan, outcome: UpdateOutcome, objective: Objective) -> TokenMeasures:
    """The trained tokens of an update, in the order of the step's stream.

    Args:
        plan: the update.
        outcome: what the learner did with it.
        objective: its ratio, band and correction; a bound that a controller moves is taken as this update had it.

    Returns:
        N tokens. A stream that the learner did not compute has no finite value, so that its metrics are undefined.
    """
    batch = plan.batch
    offsets, places = token_places(batch.row_offsets, plan.rows)

    def stream(values: NDArray[np.floating] | None) -> Tensor:
        absent = np.full(len(places), np.nan, np.float32)
        return torch.tensor(absent if values is None else values[places], dtype=torch.float32)

    proximal = stream(outcome.proximal)
    logprobs = {
        "behavior": stream(batch.behavior),
        "proximal": proximal,
        # The same tensor where they are equal, so that what is said of both is computed once.
        "current": proximal if outcome.current is None else stream(outcome.current),
        "reference": stream(outcome.reference),
    }
    if "teacher" in batch.scores:
        logprobs["teacher"] = stream(batch.scores["teacher"])
    streams = TokenStreams(
        row_offsets=torch.tensor(offsets),
        action_mask=torch.tensor(batch.action_mask[places]),
        advantages=stream(batch.advantages),
        token_weights=torch.tensor(plan.token_weights[objective.component][places]),
        policy_versions=torch.tensor(batch.policy_versions[places]),
        logprobs=logprobs,
        values={},
        entropy=stream(outcome.entropy),
        made={name: torch.tensor(values[places]) for name, values in plan.made.items()},
    )
    return measure_tokens(
        objective,
        streams,
        torch.tensor(outcome.flags[places].astype(np.int32)),
        learner_version=batch.step - 1,
        keep=torch.tensor(outcome.keep[places]),
        band=_band(objective, outcome),
    )


def _band(objective: Objective, outcome: UpdateOutcome) -> tuple[float, float] | None:
    """The clip's band in this update; its controller may have moved on since."""
    if not isinstance(objective.surrogate, Banded):
        return None
    low, high = objective.surrogate.band
    return low, outcome.coefficients.get("surrogate.high", high)
