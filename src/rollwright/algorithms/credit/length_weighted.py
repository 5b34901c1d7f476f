"""Credit against the group mean weighted by length (M09)."""

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import credit_of_rows, leave_out_empty_rows, places_of, totals_over
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["length_weighted_baseline", "length_weighted_means"]


def length_weighted_baseline(inputs: CreditInputs) -> Credit:
    """Reward minus Σ n·R / Σ n over the group, n a row's action tokens (OPO: arXiv:2505.23585; public: verl).

    The least variance of an on-policy gradient whose size grows with length.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (N,) float64 in verifier units; summed over the tokens of a group it is zero, over its rows not. A group with
        fewer than two scored rows that have tokens, one reward level and an unscored row get 0 and a reason.
    """
    return credit_of_rows(inputs, leave_out_empty_rows(inputs), inputs.rewards - length_weighted_means(inputs))


def length_weighted_means(inputs: CreditInputs) -> Tensor:
    """Σ n·R / Σ n over the scored rows of each row's group.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (R,) float64 in verifier units; NaN where the group has no scored token.
    """
    is_scored = ~inputs.rewards.isnan()
    group = places_of(inputs.group_index)
    tokens = torch.where(is_scored, inputs.row_offsets.diff().to(torch.float64), 0.0)
    return totals_over(tokens * torch.where(is_scored, inputs.rewards, 0.0), group) / totals_over(tokens, group)
