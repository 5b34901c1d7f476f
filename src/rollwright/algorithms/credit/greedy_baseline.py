"""Credit against the reward of the greedy attempt (M08)."""

from dataclasses import replace

import torch

from rollwright.algorithms.credit.groups import ZERO_CONTRAST, broadcast_to_tokens, rows_where
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["subtract_greedy"]


def subtract_greedy(inputs: CreditInputs) -> Credit:
    """Return to go minus the reward of the greedy attempt at the same task (ReMax: arXiv:2310.10505; public: verl).

    The greedy attempt is one more sample a task, under the same verifier and policy version, and is not trained.

    Args:
        inputs: rows; rewards (R,) float64, NaN where unscored; `greedy_reward` among the values, (R,) float64, NaN
            where there is none.

    Returns:
        (N,) float64 in verifier units. A row without a greedy reward or without a score gets 0 and a reason.
    """
    greedy = value_of(inputs, "greedy_reward")
    if infinite := rows_where(greedy.isinf()):
        raise ObjectiveError(
            f"rows {infinite} have an infinite greedy_reward; it is finite, or NaN where there was no greedy attempt."
        )
    returns = return_to_go(inputs)
    is_missing = greedy.isnan() & ~inputs.rewards.isnan()
    has_credit = broadcast_to_tokens(~(greedy + inputs.rewards).isnan(), inputs.row_offsets)
    baseline = broadcast_to_tokens(greedy, inputs.row_offsets)
    return replace(
        returns,
        advantages=torch.where(has_credit, returns.advantages - baseline, 0.0),
        untrained={**returns.untrained, **dict.fromkeys(rows_where(is_missing), ZERO_CONTRAST)},
    )
