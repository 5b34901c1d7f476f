"""Credit that weighs rare successes as likelihood would (M31)."""

import torch

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.groups import credit_of_rows, group_statistics, rows_where
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["divide_by_mean"]


def divide_by_mean(inputs: CreditInputs) -> Credit:
    """(R − R̄)/R̄ within the group (MaxRL: arXiv:2602.02710; public: prime-rl).

    Without bias for maximum likelihood cut at the order of the group size; a success weighs about 1/p.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, none below 0, NaN where unscored.

    Returns:
        (N,) float64 without unit, at least −1. A group of one, one reward level (all failures among them) and an
        unscored row get 0 and a reason.
    """
    if negative := rows_where(inputs.rewards < 0):
        raise ObjectiveError(
            f"rows {negative} have rewards below 0; dividing by the group mean needs rewards of at least 0, such as "
            "successes."
        )
    statistics = group_statistics(inputs)
    mean = torch.where(statistics.has_contrast, statistics.mean, 1.0)
    return credit_of_rows(inputs, statistics, (inputs.rewards - statistics.mean) / mean)
