"""Credit by the distance from the group mean in units of the group's spread (M04)."""

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import GroupStatistics, credit_of_rows, group_statistics
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["standardize_within_group", "standardized_rewards"]


def standardize_within_group(inputs: CreditInputs, *, ddof: int = 1, eps: float = 1e-6) -> Credit:
    """Reward minus the group mean, over the group's standard deviation plus `eps` (GRPO: arXiv:2402.03300).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        ddof: 1 divides the squares by G − 1 (as the public trainers do), 0 by G; G counts scored episodes.
        eps: added to the standard deviation, verifier units.

    Returns:
        (N,) float64 without unit. A group of one, one reward level (by range, whatever `eps`) and an unscored row
        get 0 and a reason.
    """
    statistics = group_statistics(inputs)
    return credit_of_rows(inputs, statistics, standardized_rewards(inputs.rewards, statistics, ddof=ddof, eps=eps))


def standardized_rewards(rewards: Tensor, statistics: GroupStatistics, *, ddof: int, eps: float) -> Tensor:
    """(R,) float64: (R − mean)/(s + eps) of the row's group; 0 where it has no contrast or the row no score.

    Args:
        rewards: (R,) float64, NaN where unscored.
        statistics: of the rows' groups, over these rewards.
        ddof: 1 divides the squares by G − 1, 0 by G.
        eps: added to the standard deviation, verifier units.
    """
    if ddof not in (0, 1) or not eps >= 0:
        raise ObjectiveError(f"ddof is {ddof} and eps {eps}; ddof is 0 or 1 and eps at least 0.")
    spread = (statistics.squares / (statistics.num_episodes - ddof).clamp(min=1.0)).sqrt() + eps
    distance = torch.where(statistics.has_contrast, rewards - statistics.mean, 0.0)
    return distance / torch.where(statistics.has_contrast, spread, 1.0)
