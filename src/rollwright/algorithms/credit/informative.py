"""Credit that keeps its size however many groups have no contrast (M11)."""

from typing import Literal

from rollwright.algorithms.credit.groups import credit_of_rows, group_statistics
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["informative_scale", "rescale_informative"]

Counting = Literal["groups", "nonzero_reward"]
"""Informative rows: those of groups with contrast, or those whose reward is not 0 (as verl has it)."""


def rescale_informative(inputs: CreditInputs, *, counting: Counting = "groups", norm: float = 1.0) -> Credit:
    """α·(R − R̄)/norm with α the rows over the informative ones (GPG: arXiv:2504.02546; public: verl).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        counting: which rows are informative.
        norm: F of the publication, above 0.

    Returns:
        (N,) float64 in verifier units over `norm`. A group of one, one reward level and an unscored row get 0 and a
        reason.
    """
    if norm <= 0:
        raise ObjectiveError(f"norm is {norm}; it is above 0.")
    statistics = group_statistics(inputs)
    alpha = informative_scale(inputs, counting=counting)
    return credit_of_rows(inputs, statistics, alpha * (inputs.rewards - statistics.mean) / norm)


def informative_scale(inputs: CreditInputs, *, counting: Counting = "groups") -> float:
    """α: scored rows with tokens over the informative ones among them.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        counting: which rows are informative.

    Returns:
        At least 1; the number of counted rows where none is informative, 0 in an empty batch.
    """
    statistics = group_statistics(inputs)
    is_counted = statistics.is_scored & (inputs.row_offsets.diff() > 0)
    is_informative = statistics.has_contrast if counting == "groups" else inputs.rewards != 0
    informative = int((is_counted & is_informative).sum())
    return int(is_counted.sum()) / max(informative, 1)
