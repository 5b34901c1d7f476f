"""Rewards and advantages that follow the quality of a passing attempt (GRS and GAR, M28 and M29)."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import (
    GroupStatistics,
    broadcast_to_tokens,
    episode_shares,
    group_statistics,
    places_of,
    rows_where,
    totals_over,
)
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["redistribute_by_quality", "reject_hacks", "rewards_without_hacks", "rubric_reward"]


def rubric_reward(test: Tensor, solution: Tensor, behavior: Tensor) -> Tensor:
    """Test reward times two rubric scores: a failing test stays 0, and passing attempts differ again (MiMo-V2.6 eq. 2).

    Args:
        test: (R,) reward of the tests, verifier units; NaN where unscored.
        solution: (R,) in [0, 1], how good the solution is by the task's rubric.
        behavior: (R,) in [0, 1], how well the agent behaved.

    Returns:
        (R,) float64, verifier units; NaN where anything is unscored.
    """
    for name, score in (("solution", solution), ("behavior", behavior)):
        if wrong := rows_where((score < 0) | (score > 1)):
            raise ObjectiveError(f"the {name} score of rows {wrong} lies outside [0, 1]; a rubric can only take away.")
    return test.to(torch.float64) * solution * behavior


def rewards_without_hacks(inputs: CreditInputs) -> Tensor:
    """(R,) float64 rewards, 0 for a confirmed hack (`is_hack` (R,) is 1); an unscored row stays so."""
    return torch.where((value_of(inputs, "is_hack") == 1) & ~inputs.rewards.isnan(), 0.0, inputs.rewards)


def reject_hacks(inputs: CreditInputs, *, credit: CreditFn) -> Credit:
    """Give a confirmed hack the reward 0 before any statistic is made (MiMo-V2.6 eq. 3, first step).

    Args:
        inputs: rows of whole groups with `is_hack` (R,).
        credit: the estimator that follows.

    Returns:
        The estimator's credit on the corrected rewards.
    """
    return credit(replace(inputs, rewards=rewards_without_hacks(inputs)))


def redistribute_by_quality(
    inputs: CreditInputs, *, max_scale: float | None = None, passing: float | None = None
) -> Credit:
    """Move advantage among passing attempts by a grader's factors: λ·f·A, centered again (MiMo-V2.6 eq. 3).

    λ = min(λ_max, ΣA⁺/Σf·A⁺) over the group's passing rows with A > 0: their mass is kept unless the cap is active.

    Args:
        inputs: rows of whole groups with `quality` (R,) factors f in (0, 1], NaN where there is no grade.
        max_scale: λ_max ≥ 1; inf for no cap.
        passing: least reward of a passing attempt. None: rewards are 0 and 1, and a group with others is left alone.

    Returns:
        (N,) float64, verifier units, of mean zero in every group. A group keeps the distance from its mean where a
        passing row has no grade, none fails, or rewards are soft without `passing`.
    """
    cap = chosen("max_scale", max_scale, undisclosed_by="MiMo-V2.6")
    quality = value_of(inputs, "quality").to(torch.float64)
    if wrong := rows_where((quality <= 0) | (quality > 1)):
        raise ObjectiveError(f"the quality of rows {wrong} lies outside (0, 1]; it is a factor, NaN where ungraded.")
    if not cap >= 1:
        raise ObjectiveError(f"max_scale is {cap}; it is at least 1, inf for none.")
    given = center_within_group(inputs)
    statistics = group_statistics(inputs)
    centered = torch.where(statistics.has_contrast, inputs.rewards - statistics.mean, 0.0)
    moved = _moved(inputs, statistics, centered, quality, cap, 1.0 if passing is None else passing)
    is_moved = _may_move(inputs, statistics, quality, passing)
    per_row = torch.where(is_moved, moved, centered)
    return replace(given, advantages=broadcast_to_tokens(per_row, inputs.row_offsets))


def _may_move(inputs: CreditInputs, statistics: GroupStatistics, quality: Tensor, passing: float | None) -> Tensor:
    """(R,) bool, rows of groups with contrast, a failing row, a grade for each passing one, and clear rewards."""
    group = places_of(inputs.group_index)
    is_passing = statistics.is_scored & (inputs.rewards >= (1.0 if passing is None else passing))
    is_clear = (inputs.rewards == 0) | (inputs.rewards == 1) if passing is None else statistics.is_scored
    fails = (statistics.is_scored & ~is_passing).to(torch.float64)
    ungraded = (is_passing & quality.isnan()).to(torch.float64)
    soft = (statistics.is_scored & ~is_clear).to(torch.float64)
    whole = (totals_over(fails, group) > 0) & (totals_over(ungraded + soft, group) == 0)
    return statistics.has_contrast & whole


def _moved(
    inputs: CreditInputs,
    statistics: GroupStatistics,
    centered: Tensor,
    quality: Tensor,
    cap: float,
    passing: float,
) -> Tensor:
    """(R,) advantages after the move; an episode counts once, however many rows it has."""
    group = places_of(inputs.group_index)
    share = episode_shares(statistics.is_scored, places_of(inputs.episode_index))
    is_eligible = statistics.is_scored & (inputs.rewards >= passing) & (centered > 0) & ~quality.isnan()
    factor = torch.where(is_eligible, quality, 1.0)
    before = totals_over(torch.where(is_eligible, share * centered, 0.0), group)
    after = totals_over(torch.where(is_eligible, share * factor * centered, 0.0), group)
    scale = torch.where(after > 0, before / torch.where(after > 0, after, 1.0), 1.0).clamp(max=cap)
    moved = torch.where(is_eligible, scale * factor * centered, centered)
    total = totals_over(torch.where(statistics.is_scored, share * moved, 0.0), group)
    return moved - total / statistics.num_episodes.clamp(min=1.0)
