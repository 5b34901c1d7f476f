"""Credit that keeps its size however many groups have no contrast (M11)."""

from typing import Literal

import torch

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.groups import credit_of_rows, group_statistics
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["rescale_informative"]


def rescale_informative(
    inputs: CreditInputs, *, counting: Literal["groups", "nonzero_reward"] = "groups", norm: float = 1.0
) -> Credit:
    """α·(R − R̄)/norm with α the rows over the informative ones (GPG: arXiv:2504.02546; public: verl).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        counting: informative rows are those of groups with contrast, or those whose reward is not 0 (as verl has it).
        norm: F of the publication, above 0.

    Returns:
        (N,) float64 in verifier units over `norm`; scored rows with tokens are counted. A group of one, one reward
        level and an unscored row get 0 and a reason.
    """
    if norm <= 0:
        raise ObjectiveError(f"norm is {norm}; it is above 0.")
    statistics = group_statistics(inputs)
    is_counted = statistics.is_scored & (inputs.row_offsets.diff() > 0)
    is_informative = statistics.has_contrast if counting == "groups" else inputs.rewards != 0
    informative = (is_counted & is_informative).sum().to(torch.float64)
    alpha = is_counted.sum() / informative.clamp(min=1.0)
    return credit_of_rows(inputs, statistics, alpha * (inputs.rewards - statistics.mean) / norm)
