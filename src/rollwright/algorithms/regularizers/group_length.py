"""Length control relative to the group (M88)."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import places_of, totals_over
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.regularizers.quantiles import quantiles_within
from rollwright.algorithms.streams import value_of

__all__ = ["centered_shortness", "group_length_reward", "shortest_of_the_best", "shortness"]


def group_length_reward(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    thinking: float = 0.5,
    answer: float = 0.5,
    bonus: float = 0.5,
    quality: float = 80.0,
) -> Credit:
    """R += λ_think·w̃_think + λ_answer·w̃_answer, + a bonus for the shortest of the best; then credit (Nemotron 3 Nano).

    Args:
        inputs: rows of whole groups, with the values `thinking_tokens` and `answer_tokens` (R,) where their λ is not 0.
        credit: the estimator that follows.
        thinking: λ_think.
        answer: λ_answer.
        bonus: added to the shortest rows whose reward reaches the percentile; 0: none.
        quality: percentile of the group's rewards.

    Returns:
        The estimator's credit. Unscored rows leave the statistics; a group of one length has nothing added.
    """
    rewards = inputs.rewards
    weights = (("thinking_tokens", thinking), ("answer_tokens", answer))
    for name, weight in weights:
        if weight != 0:
            rewards = rewards + weight * centered_shortness(value_of(inputs, name), inputs)
    if bonus != 0:
        rewards = rewards + bonus * shortest_of_the_best(inputs, percentile=quality)
    return credit(replace(inputs, rewards=rewards))


def shortness(lengths: Tensor, inputs: CreditInputs) -> Tensor:
    """How short each row is in its group: w = 1 − (ℓ − ℓ_min)/(ℓ_max − ℓ_min).

    Args:
        lengths: (R,) tokens.
        inputs: the rows; unscored ones are not compared.

    Returns:
        (R,) float64 in [0, 1]: 1 is the shortest; 0 in unscored rows and where all lengths are one.
    """
    exact = _checked(lengths, inputs)
    is_scored, group = ~inputs.rewards.isnan(), places_of(inputs.group_index)
    low, high = _extreme(exact, group, is_scored, "amin"), _extreme(exact, group, is_scored, "amax")
    span = high - low
    return torch.where(is_scored & (span > 0), 1.0 - (exact - low) / span.clamp(min=1e-300), 0.0)


def centered_shortness(lengths: Tensor, inputs: CreditInputs) -> Tensor:
    """w̃ = w − mean w over the scored rows of the group; (R,) float64 that sum to 0 in every group."""
    is_scored, group = (~inputs.rewards.isnan()).to(torch.float64), places_of(inputs.group_index)
    short = shortness(lengths, inputs)
    mean = totals_over(short, group) / totals_over(is_scored, group).clamp(min=1.0)
    return torch.where(is_scored > 0, short - mean, 0.0)


def shortest_of_the_best(inputs: CreditInputs, *, percentile: float) -> Tensor:
    """1 for the rows of fewest action tokens among those whose reward reaches a percentile of their group, else 0.

    Args:
        inputs: rows of whole groups.
        percentile: in [0, 100], interpolated linearly; reaching it counts. The report does not say which length is
            compared, nor what becomes of ties: here action tokens, and all of them.

    Returns:
        (R,) float64.
    """
    is_scored, group = ~inputs.rewards.isnan(), places_of(inputs.group_index)
    known = torch.where(is_scored, inputs.rewards, 0.0)
    is_best = is_scored & (known >= quantiles_within(known, group, is_scored, percentile=percentile))
    lengths = inputs.row_offsets.diff().to(torch.float64)
    return (is_best & (lengths <= _extreme(lengths, group, is_best, "amin"))).to(torch.float64)


def _extreme(values: Tensor, group: Tensor, counted: Tensor, which: str) -> Tensor:
    """(R,) lowest (amin) or highest (amax) counted value of the row's group; 0 where nothing is counted."""
    empty = values.new_zeros(len(values))
    return empty.scatter_reduce(0, group[counted], values[counted], which, include_self=False)[group]


def _checked(lengths: Tensor, inputs: CreditInputs) -> Tensor:
    if lengths.shape != inputs.rewards.shape:
        raise ObjectiveError(
            f"lengths have shape {tuple(lengths.shape)} for {len(inputs.rewards)} rows; give one number a row."
        )
    return lengths.to(torch.float64)
