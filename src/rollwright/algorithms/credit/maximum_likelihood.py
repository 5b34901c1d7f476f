"""Credit that weighs rare successes as likelihood would (M31)."""

import torch

from rollwright.algorithms.credit.groups import credit_of_rows, group_statistics, rows_where
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["divide_by_mean"]


def divide_by_mean(inputs: CreditInputs) -> Credit:
    """(R − R̄)/R̄ within the group (MaxRL: arXiv:2602.02710; public: prime-rl).

    A success weighs about 1/p. In expectation it is the gradient of log-likelihood, −Σ_k (1 − p)^k/k, cut at order
    G − 1; order G would need −1 in groups without success, where the credit is 0.

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
