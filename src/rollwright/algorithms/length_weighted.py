"""Credit against the group mean weighted by length (M09)."""

import torch

from rollwright.algorithms.groups import credit_of_rows, leave_out_empty_rows, places_of, totals_over
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["length_weighted_baseline"]


def length_weighted_baseline(inputs: CreditInputs) -> Credit:
    """Reward minus Σ n·R / Σ n over the group, n a row's action tokens (OPO: arXiv:2505.23585; public: verl).

    The least variance of an on-policy gradient whose size grows with length.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (N,) float64 in verifier units; summed over the tokens of a group it is zero, over its rows not. A group with
        fewer than two scored rows that have tokens, one reward level and an unscored row get 0 and a reason.
    """
    statistics = leave_out_empty_rows(inputs)
    group = places_of(inputs.group_index)
    tokens = torch.where(statistics.is_scored, inputs.row_offsets.diff().to(torch.float64), 0.0)
    earned = tokens * torch.where(statistics.is_scored, inputs.rewards, 0.0)
    baseline = totals_over(earned, group) / totals_over(tokens, group).clamp(min=1.0)
    return credit_of_rows(inputs, statistics, inputs.rewards - baseline)
