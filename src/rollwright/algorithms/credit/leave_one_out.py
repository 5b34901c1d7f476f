"""Credit against the other attempts at the same task (M03)."""

from rollwright.algorithms.credit.groups import credit_of_rows, group_statistics
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["leave_one_out"]


def leave_one_out(inputs: CreditInputs) -> Credit:
    """Reward minus the mean of the other episodes of the group (RLOO: arXiv:2402.14740), unbiased.

    It is G/(G − 1) times the distance from the group mean, G counting scored episodes.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.

    Returns:
        (N,) float64 in verifier units. A group of one, one reward level and an unscored row get 0 and a reason.
    """
    statistics = group_statistics(inputs)
    others = (statistics.num_episodes - 1.0).clamp(min=1.0)
    return credit_of_rows(inputs, statistics, (inputs.rewards - statistics.mean) * (statistics.num_episodes / others))
