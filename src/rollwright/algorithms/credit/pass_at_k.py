"""Credit for the best of k attempts instead of the average one (M32)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import (
    EQUAL_REWARDS,
    credit_of_rows,
    episode_shares,
    extremes_over,
    group_statistics,
    places_of,
    totals_over,
)
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs

__all__ = ["best_minus_second", "pass_at_k_credit", "pass_at_k_scores"]


def pass_at_k_credit(inputs: CreditInputs, *, k: int, success_at: float = 1.0) -> Credit:
    """What a success adds to pass@k over subsets of the group, minus that of the same subsets without it.

    A = (k/n)·C(n − c, k − 1)/C(n − 1, k − 1) for a success, 0 for a failure: n attempts, c successes. Derived here and
    checked against all subsets.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored; n counts scored episodes.
        k: at least 2.
        success_at: an attempt with at least this reward succeeds, verifier units.

    Returns:
        (N,) float64, probability. A group of fewer than k scored attempts, all successes or all failures, and an
        unscored row get 0 and a reason.
    """
    group = _outcomes(inputs, k, success_at)
    added = k / group.attempts.clamp(min=1.0) * _all_fail(group.attempts - 1, group.successes - 1, k - 1)
    return group.credit(torch.where(group.is_success, added, 0.0))


def pass_at_k_scores(inputs: CreditInputs, *, k: int, success_at: float = 1.0) -> Tensor:
    """Each attempt's share of pass@k over the subsets of its group, before any baseline; usable as a reward.

    (k/n)·1 for a success, (k/n)·ρ(n − 1, c, k − 1) for a failure with ρ(n, c, k) = 1 − C(n − c, k)/C(n, k).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        k: at least 2.
        success_at: an attempt with at least this reward succeeds, verifier units.

    Returns:
        (R,) float64; NaN where unscored or where fewer than k attempts were scored.
    """
    group = _outcomes(inputs, k, success_at)
    passed = 1.0 - _all_fail(group.attempts - 1, group.successes, k - 1)
    scores = k / group.attempts.clamp(min=1.0) * torch.where(group.is_success, 1.0, passed)
    return torch.where(group.is_scored & (group.attempts >= k), scores, torch.nan)


def best_minus_second(
    inputs: CreditInputs, *, scaling: Literal["none", "std"] = "none", ddof: int = 1, eps: float = 1e-6
) -> Credit:
    """Only the best attempt of the group has credit: its lead over the second (public: verl GRPO_PASSK).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        scaling: `std` divides by the group's standard deviation plus `eps`.
        ddof: of that standard deviation; not read without it.
        eps: added to it, at least 0.

    Returns:
        (N,) float64, at least 0; every row of the best episode has it. A tie for the best gives 0. A group of one, one
        reward level and an unscored row get 0 and a reason.
    """
    if ddof not in (0, 1) or not eps >= 0:
        raise ObjectiveError(f"ddof is {ddof} and eps {eps}; ddof is 0 or 1 and eps at least 0.")
    statistics = group_statistics(inputs)
    is_scored = statistics.is_scored
    group, episode = places_of(inputs.group_index), places_of(inputs.episode_index)
    share = episode_shares(is_scored, episode)
    rewards = totals_over(share * torch.where(is_scored, inputs.rewards, 0.0), episode)
    best = extremes_over(rewards, group, is_scored, "amax")
    leads = is_scored & (rewards >= best)
    rows = torch.arange(len(rewards))
    first = torch.full_like(rows, len(rows)).scatter_reduce(0, group[leads], rows[leads], "amin")
    winner = torch.cat([episode, episode.new_full((1,), -1)])[first.clamp(max=len(rows))][group]
    is_best = is_scored & (episode == winner)
    second = extremes_over(rewards, group, is_scored & ~is_best, "amax")
    lead = best - second
    is_tied = lead <= EQUAL_REWARDS * torch.maximum(best.abs(), second.abs()).clamp(min=1.0)
    spread = torch.ones_like(lead)
    if scaling == "std":
        variance = statistics.squares / (statistics.num_episodes - ddof).clamp(min=1.0)
        spread = torch.where(statistics.has_contrast, variance.sqrt() + eps, 1.0)
    return credit_of_rows(inputs, statistics, torch.where(is_best & ~is_tied, lead / spread, 0.0))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Outcomes:
    """Successes and attempts of each row's group."""

    inputs: CreditInputs
    is_scored: Tensor
    is_success: Tensor
    attempts: Tensor
    """(R,) float64, scored episodes n."""
    successes: Tensor
    """(R,) float64, c."""
    k: int

    def credit(self, per_row: Tensor) -> Credit:
        """Credit of the rows, with contrast where some of at least k attempts succeeded and some did not."""
        is_short = self.attempts < self.k
        statistics = replace(
            group_statistics(self.inputs),
            has_no_baseline=is_short,
            has_zero_variance=~is_short & ((self.successes < 0.5) | (self.successes > self.attempts - 0.5)),
        )
        return credit_of_rows(self.inputs, statistics, per_row)


def _outcomes(inputs: CreditInputs, k: int, success_at: float) -> _Outcomes:
    if not (k >= 2 and float(k).is_integer()):
        raise ObjectiveError(
            f"k is {k}; pass@k as an objective needs a whole number of at least 2, as pass@1 is the mean reward."
        )
    is_scored = ~inputs.rewards.isnan()
    is_success = inputs.rewards >= success_at
    group = places_of(inputs.group_index)
    share = episode_shares(is_scored, places_of(inputs.episode_index))
    return _Outcomes(
        inputs=inputs,
        is_scored=is_scored,
        is_success=is_success,
        attempts=totals_over(share, group),
        successes=totals_over(torch.where(is_success, share, 0.0), group),
        k=k,
    )


def _all_fail(attempts: Tensor, successes: Tensor, k: int) -> Tensor:
    """C(n − c, k)/C(n, k): the chance that k of n attempts, c of them successes, all fail; 0 where c > n − k."""
    drawn = torch.arange(k, dtype=torch.float64)
    fails = (attempts - successes).unsqueeze(1) - drawn
    return (fails.clamp(min=0.0) / (attempts.unsqueeze(1) - drawn).clamp(min=1.0)).prod(1)
