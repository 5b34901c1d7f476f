"""Credit in units of the spread of the whole batch (M06, M07), and whitening around any other estimator.

Tokens of rows that are not trained stand in no statistic. Statistics are of all tokens of the step: credit sees whole
groups of the whole step, and ranks that see parts of it add their `Moments`.
"""

from dataclasses import replace
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.groups import (
    ZERO_CONTRAST,
    credit_of_rows,
    episode_shares,
    group_statistics,
    places_of,
    rows_where,
    trained_tokens,
)
from rollwright.algorithms.credit.moments import Guard, moments_of, scale, whiten
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs

__all__ = [
    "center_then_scale_by_batch",
    "center_then_whiten_tokens",
    "normalize_over_tokens",
    "scale_advantages",
    "whiten_advantages",
    "whiten_over_batch",
]

LevelGroups = Literal["zero", "whiten"]
"""What becomes of rows without contrast: 0 and in no statistic, or whitened with the others."""


def whiten_over_batch(inputs: CreditInputs, *, discount: float = 1.0, ddof: int = 1, eps: float = 1e-8) -> Credit:
    """Return to go, whitened over all action tokens of the step (REINFORCE++: arXiv:2501.03262; public: verl).

    Args:
        inputs: rows; rewards (R,) float64, NaN where unscored; step_rewards (N,) float64, a KL penalty among them.
        discount: γ of the return, in [0, 1].
        ddof: 1 divides the squares by N − 1, 0 by N.
        eps: beside the variance, under the root.

    Returns:
        (N,) float64 of mean 0 and variance 1 over the tokens of scored rows, (G − μ)/√(σ² + ε). One level, or fewer
        than two tokens, give 0 and a reason.
    """
    return whiten_advantages(inputs, credit=partial(return_to_go, discount=discount), ddof=ddof, eps=eps)


def center_then_whiten_tokens(
    inputs: CreditInputs, *, ddof: int = 1, eps: float = 1e-8, level_groups: LevelGroups = "zero"
) -> Credit:
    """Distance from the group mean, whitened over the action tokens of the step (REINFORCE++-baseline; public: verl).

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        ddof: 1 divides the squares by N − 1, 0 by N.
        eps: beside the variance, under the root.
        level_groups: `zero` leaves rows without contrast at 0 and out of the statistics; `whiten` counts and whitens
            them, which gives them an advantage that no reward has made (as verl does).

    Returns:
        (N,) float64 without unit, (A − μ)/√(σ² + ε).
    """
    if level_groups == "zero":
        return whiten_advantages(inputs, credit=center_within_group, ddof=ddof, eps=eps)
    centered = center_within_group(inputs)
    trained = {row: reason for row, reason in centered.untrained.items() if reason != ZERO_CONTRAST}
    return whiten_advantages(inputs, credit=lambda _: replace(centered, untrained=trained), ddof=ddof, eps=eps)


def center_then_scale_by_batch(inputs: CreditInputs, *, ddof: int = 0, eps: float = 1e-4) -> Credit:
    """Distance from the group mean, over the standard deviation of these distances in the step.

    Batch-level scaling as ScaleRL names it (arXiv:2510.13786); the formula is derived here. Rows without contrast are
    zeros that count in the standard deviation; an episode counts once.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored.
        ddof: 1 divides the squares by the number of episodes − 1, 0 by that number.
        eps: added to the standard deviation, verifier units.

    Returns:
        (N,) float64 without unit. A group of one, one reward level and an unscored row get 0 and a reason.
    """
    if ddof not in (0, 1) or not eps >= 0:
        raise ObjectiveError(f"ddof is {ddof} and eps {eps}; ddof is 0 or 1 and eps at least 0.")
    statistics = group_statistics(inputs)
    share = episode_shares(statistics.is_scored, places_of(inputs.episode_index))
    distance = torch.where(statistics.has_contrast, inputs.rewards - statistics.mean, 0.0)
    variance = (share * distance.square()).sum() / (share.sum() - ddof).clamp(min=1.0)
    has_contrast = statistics.has_contrast.any()
    return credit_of_rows(inputs, statistics, distance / torch.where(has_contrast, variance.sqrt() + eps, 1.0))


def normalize_over_tokens(inputs: CreditInputs, *, ddof: int = 0, eps: float = 1e-5) -> Credit:
    """The row's reward on each of its tokens, whitened over the step (AReaL: arXiv:2505.24298, rewards ±5).

    The step is the comparison group: groups are not looked at, and long rows weigh more in the mean.

    Args:
        inputs: rows; rewards (R,) float64, NaN where unscored.
        ddof: 1 divides the squares by N − 1, 0 by N.
        eps: added to the standard deviation, verifier units.

    Returns:
        (N,) float64 without unit, (R − μ)/(σ + ε). One level in the whole step gives 0 and a reason.
    """
    return whiten_advantages(inputs, credit=_broadcast_rewards, ddof=ddof, eps=eps, guard="std")


def whiten_advantages(
    inputs: CreditInputs, *, credit: CreditFn, ddof: int = 1, eps: float = 1e-8, guard: Guard = "variance"
) -> Credit:
    """Any credit, whitened over the action tokens of its trained rows (public: verl `masked_whiten`).

    Mean and variance are of the same tokens; padding and untrained rows are in neither.

    Args:
        inputs: rows of whole groups.
        credit: the estimator that comes before, such as a generalized advantage.
        ddof: 1 divides the squares by N − 1, 0 by N.
        eps: at least 0.
        guard: `variance` for √(σ² + ε), `std` for σ + ε.

    Returns:
        The credit with mean 0 and spread 1; value targets are those from before. One level gives 0 and a reason.
    """
    given = credit(inputs)
    is_counted = trained_tokens(given, inputs.row_offsets)
    moments = moments_of(given.advantages[is_counted])
    whitened = whiten(given.advantages, moments, ddof=ddof, eps=eps, guard=guard)
    return _with_advantages(inputs, given, torch.where(is_counted, whitened, 0.0), is_level=bool(moments.is_level))


def scale_advantages(
    inputs: CreditInputs, *, credit: CreditFn, ddof: int = 0, eps: float = 1e-8, guard: Guard = "std"
) -> Credit:
    """Any credit over the spread of its action tokens, its mean left where it is: x/σ.

    Args:
        inputs: rows of whole groups.
        credit: the estimator that comes before.
        ddof: 1 divides the squares by N − 1, 0 by N.
        eps: at least 0.
        guard: `variance` for √(σ² + ε), `std` for σ + ε.

    Returns:
        The credit with spread 1; value targets are those from before. One level gives 0 and a reason.
    """
    given = credit(inputs)
    is_counted = trained_tokens(given, inputs.row_offsets)
    moments = moments_of(given.advantages[is_counted])
    scaled = scale(given.advantages, moments, ddof=ddof, eps=eps, guard=guard)
    return _with_advantages(inputs, given, torch.where(is_counted, scaled, 0.0), is_level=bool(moments.is_level))


def _broadcast_rewards(inputs: CreditInputs) -> Credit:
    """The reward of each row on its tokens; an unscored row gets 0 and a reason."""
    statistics = replace(
        group_statistics(inputs),
        has_no_baseline=torch.zeros_like(inputs.is_truncated),
        has_zero_variance=torch.zeros_like(inputs.is_truncated),
    )
    return credit_of_rows(inputs, statistics, inputs.rewards)


def _with_advantages(inputs: CreditInputs, given: Credit, advantages: Tensor, *, is_level: bool) -> Credit:
    """The credit with new advantages; where the step is level, every row that had no reason yet has one."""
    level = dict.fromkeys(rows_where(torch.ones(len(inputs.rewards), dtype=torch.bool)), ZERO_CONTRAST)
    return replace(given, advantages=advantages, untrained={**(level if is_level else {}), **given.untrained})
