"""Budgets of effort: how much an attempt may spend before its length costs it something (M91)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.credit.groups import places_of, totals_over
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Controller, Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = [
    "EFFORT_LEVELS",
    "effort_budget",
    "effort_length_penalty",
    "effort_pressure",
    "is_over_budget",
    "missing_budgets",
    "tokens_of_episodes",
]

EFFORT_LEVELS: Final[Mapping[str, int]] = {"low": 50, "high": 75, "max": 100}
"""What the names of the interface of DeepSeek V4.1 mean on its scale from 1 to 100."""

_KIMI, _DEEPSEEK = "the report on Kimi K3", "the report on DeepSeek V4.1"


def effort_budget(
    inputs: CreditInputs, *, credit: CreditFn, multiplier: float | Controller | None = None, reward: float = -1.0
) -> Credit:
    """R = −1 where an attempt used more than τ·b₀ of its problem, a success too; then credit (Kimi K3).

    Args:
        inputs: rows with the value `cold_start_budget` (R,), tokens; NaN where there is none.
        credit: the estimator that follows.
        multiplier: τ, or what anneals it, such as `LinearAnneal`; the report does not give it.
        reward: of an attempt over its budget, verifier units.

    Returns:
        The estimator's credit. All that the policy wrote counts, over all turns and rows of the attempt. An unscored
        row stays unscored, and without a budget there is no penalty: `missing_budgets` counts them.
    """
    scale = coefficient_of(chosen("multiplier", multiplier, undisclosed_by=_KIMI))
    is_over = is_over_budget(tokens_of_episodes(inputs), value_of(inputs, "cold_start_budget"), multiplier=scale)
    is_over = is_over & ~inputs.rewards.isnan()
    return credit(replace(inputs, rewards=torch.where(is_over, reward, inputs.rewards)))


def is_over_budget(used: Tensor, budgets: Tensor, *, multiplier: float) -> Tensor:
    """(R,) bool: used > τ·b₀, strictly; False where the budget is NaN.

    Args:
        used: (R,) tokens of the whole attempt.
        budgets: (R,) tokens, b₀ of each problem.
        multiplier: τ, above 0.

    Returns:
        Which attempts are over.
    """
    if not multiplier > 0:
        raise ObjectiveError(f"the multiplier of the budget is {multiplier}; it is above 0.")
    return used.to(torch.float64) > multiplier * budgets.to(torch.float64)


def missing_budgets(inputs: CreditInputs) -> int:
    """How many rows have no cold-start budget, and so no pressure."""
    return int(value_of(inputs, "cold_start_budget").isnan().sum())


def tokens_of_episodes(inputs: CreditInputs) -> Tensor:
    """(R,) float64: action tokens of all rows of the row's episode, tool arguments and earlier segments included."""
    return totals_over(inputs.row_offsets.diff().to(torch.float64), places_of(inputs.episode_index))


def effort_length_penalty(
    inputs: CreditInputs, *, credit: CreditFn, max_tokens: int, scale: float | None = None
) -> Credit:
    """R −= pressure(effort)·|y|/ℓ_max, then credit (DeepSeek V4.1: larger effort, less length pressure).

    Args:
        inputs: rows with the value `effort` (R,) in 1…100; NaN where there is none, and no pressure.
        credit: the estimator that follows.
        max_tokens: ℓ_max, at least 1; |y| counts the action tokens of the attempt.
        scale: pressure at effort 1; the report does not give it, nor the form, which is a line here.

    Returns:
        The estimator's credit.
    """
    if max_tokens < 1:
        raise ObjectiveError(f"the longest length is {max_tokens} tokens; it is at least 1.")
    pressure = effort_pressure(value_of(inputs, "effort"), scale=scale)
    penalties = pressure * tokens_of_episodes(inputs) / max_tokens
    return credit(replace(inputs, rewards=inputs.rewards - penalties))


def effort_pressure(effort: Tensor, *, scale: float | None = None) -> Tensor:
    """scale·(100 − effort)/99: falls with effort, from the scale at 1 to nothing at 100.

    Args:
        effort: (R,) in 1…100; NaN where there is none.
        scale: verifier units at effort 1, at least 0; undisclosed.

    Returns:
        (R,) float64, at least 0; 0 where there is no effort.
    """
    exact = effort.to(torch.float64)
    if bool(((exact < 1) | (exact > 100)).any()):
        raise ObjectiveError("an effort lies outside 1…100; the names low, high and max mean 50, 75 and 100.")
    pressure = chosen("scale", scale, undisclosed_by=_DEEPSEEK) * (100.0 - exact) / 99.0
    return torch.where(exact.isnan(), 0.0, pressure)
