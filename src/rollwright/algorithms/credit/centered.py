"""Credit by the distance from the group mean (M05)."""

from rollwright.algorithms.credit.groups import credit_of_rows, group_statistics
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["center_within_group"]


def center_within_group(inputs: CreditInputs) -> Credit:
    """Reward minus its group's mean (GRPO without the std: arXiv:2503.20783).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (N,) float64 in verifier units; over the episodes of a group they sum to zero. A group of one, one reward
        level and an unscored row get 0 and a reason.
    """
    statistics = group_statistics(inputs)
    return credit_of_rows(inputs, statistics, inputs.rewards - statistics.mean)
