"""Length penalties that grow with the group's pass rate, so that hard tasks keep their room (M90)."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import episode_shares, group_statistics, places_of, totals_over
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = [
    "linear_length_penalty",
    "linear_penalties",
    "pass_rate_length_penalty",
    "pass_rate_penalties",
    "pass_rates",
    "turns_of_rows",
]


def pass_rate_length_penalty(
    inputs: CreditInputs, *, credit: CreditFn, max_tokens: int, weight: float = 0.25, success: float = 1.0
) -> Credit:
    """R −= w·ρ·|y|/ℓ_max with ρ the group's pass rate, then credit (MAI-Thinking-1; off in its 128k stage).

    Args:
        inputs: rows of whole groups; |y| counts action tokens.
        credit: the estimator that follows.
        max_tokens: ℓ_max, at least 1.
        weight: w.
        success: reward from which an attempt passes, verifier units.

    Returns:
        The estimator's credit; unscored rows stay unscored.
    """
    rates = pass_rates(inputs, success=success)
    penalties = pass_rate_penalties(inputs.row_offsets.diff(), rates, max_tokens=max_tokens, weight=weight)
    return credit(replace(inputs, rewards=inputs.rewards - penalties))


def pass_rate_penalties(lengths: Tensor, rates: Tensor, *, max_tokens: int, weight: float = 0.25) -> Tensor:
    """(R,) float64 w·ρ·|y|/ℓ_max of (R,) lengths in tokens and (R,) pass rates."""
    if max_tokens < 1:
        raise ObjectiveError(f"the longest length is {max_tokens} tokens; it is at least 1.")
    return weight * rates * lengths.to(torch.float64) / max_tokens


def pass_rates(inputs: CreditInputs, *, success: float = 1.0) -> Tensor:
    """Share of the scored episodes of each row's group that reach `success`.

    Args:
        inputs: rows of whole groups; an episode counts once, however many rows it has.
        success: reward from which an attempt passes, verifier units.

    Returns:
        (R,) float64; 0 where nothing is scored.
    """
    is_scored, group = ~inputs.rewards.isnan(), places_of(inputs.group_index)
    share = episode_shares(is_scored, places_of(inputs.episode_index))
    passing = totals_over(share * (inputs.rewards >= success), group)
    return passing / totals_over(share, group).clamp(min=1.0)


def linear_length_penalty(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    output_weight: float = 1.0,
    input_weight: float = 0.1,
    turns_weight: float = 0.1,
) -> Credit:
    """R −= R̄·Σ_k w_k·x_k/max x_k over output tokens, input tokens and turns, then credit (public code: prime-rl).

    Args:
        inputs: rows of whole groups, with the values `input_tokens` (R,) where their weight is not 0.
        credit: the estimator that follows.
        output_weight: of action tokens.
        input_weight: of tokens that the policy read.
        turns_weight: of turns with an action.

    Returns:
        The estimator's credit; R̄ is the group's mean reward, and a measure that is 0 in all its rows costs nothing.
    """
    measures = [(output_weight, inputs.row_offsets.diff())]
    if input_weight != 0:
        measures.append((input_weight, value_of(inputs, "input_tokens")))
    if turns_weight != 0:
        measures.append((turns_weight, turns_of_rows(inputs)))
    return credit(replace(inputs, rewards=inputs.rewards - linear_penalties(inputs, measures)))


def linear_penalties(inputs: CreditInputs, measures: list[tuple[float, Tensor]]) -> Tensor:
    """(R,) float64: R̄·Σ_k w_k·x_k/max x_k, the largest x_k taken over the scored rows of the group.

    Args:
        inputs: rows of whole groups.
        measures: weight and (R,) measure, at least 0.

    Returns:
        What each row's reward loses.
    """
    statistics, group = group_statistics(inputs), places_of(inputs.group_index)
    total = torch.zeros_like(inputs.rewards)
    for weight, measure in measures:
        exact = torch.where(statistics.is_scored, measure.to(torch.float64), 0.0)
        largest = exact.new_zeros(len(exact)).scatter_reduce(0, group, exact, "amax", include_self=True)[group]
        total = total + weight * torch.where(largest > 0, exact / largest.clamp(min=1e-300), 0.0)
    return statistics.mean * total


def turns_of_rows(inputs: CreditInputs) -> Tensor:
    """(R,) int64: turns of each row in which the policy acted; 0 in a row without action tokens."""
    turns, lengths = inputs.turn_index, inputs.row_offsets.diff()
    is_first = torch.ones_like(turns, dtype=torch.bool)
    is_first[1:] = turns.diff() != 0
    is_first[inputs.row_offsets[:-1][lengths > 0]] = True
    running = torch.cat([lengths.new_zeros(1), is_first.cumsum(0)])
    return running[inputs.row_offsets].diff()
