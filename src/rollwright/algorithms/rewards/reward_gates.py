"""Rewards that count only once something else holds (M120)."""

from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import broadcast_to_tokens
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs

__all__ = ["accumulate_when_open", "essential_first", "gate_step_rewards", "scaffolded_reward"]


def accumulate_when_open(high: Tensor, low: Tensor, *, threshold: float) -> Tensor:
    """High + low·1[high ≥ threshold]: immediate rewards count only where the goal was reached (G-RA).

    Args:
        high: (R,) float64 reward of the goal, NaN where unscored.
        low: (R,) float64 sum of the immediate rewards.
        threshold: of the goal's reward, from which the gate is open; verifier units.

    Returns:
        (R,) float64, NaN where the goal is unscored.
    """
    return high + torch.where(high >= threshold, low, 0.0)


def gate_step_rewards(inputs: CreditInputs, *, credit: CreditFn, threshold: float) -> Credit:
    """Rewards of turns are put to 0 in rows whose own reward is below the threshold; then credit (G-RA).

    Args:
        inputs: rows; step_rewards (N,) float64.
        credit: an estimator that reads rewards of turns, such as `return_to_go`.
        threshold: of the row's reward; an unscored row keeps its gate closed.

    Returns:
        The estimator's credit.
    """
    is_open = broadcast_to_tokens(inputs.rewards >= threshold, inputs.row_offsets)
    return credit(replace(inputs, step_rewards=torch.where(is_open, inputs.step_rewards, 0.0)))


def essential_first(essential: Tensor, additional: Tensor, *, additional_weight: float | None = None) -> Tensor:
    """Mean of the essential criteria, plus w·mean of the others where all essential ones hold (form ours).

    Args:
        essential: (R, K) float64 in [0, 1], NaN where a row has no such criterion; 1 holds.
        additional: (R, L) float64 in [0, 1], NaN likewise.
        additional_weight: w.

    Returns:
        (R,) float64 in [0, 1 + w]; NaN for a row without an essential criterion.
    """
    weight = chosen("additional_weight", additional_weight, undisclosed_by="the abstract of RLR³")
    for name, values in (("essential", essential), ("additional", additional)):
        if bool(((values < 0) | (values > 1)).any()):
            raise ObjectiveError(f"a value of {name} lies outside 0 to 1; criteria do.")
    all_hold = (essential.isnan() | (essential >= 1.0)).all(dim=1)
    extra = additional.nanmean(dim=1).nan_to_num(nan=0.0)
    return essential.nanmean(dim=1) + torch.where(all_hold, weight * extra, 0.0)


def scaffolded_reward(
    correct: Tensor,
    prefix: Tensor,
    shape: Tensor,
    *,
    is_solved: Tensor,
    prefix_weight: float | None = None,
    shape_weight: float | None = None,
) -> Tensor:
    """Prefix rewards until a prompt was solved once, then rewards of form for correct attempts alone (SCOPE-RL).

    Args:
        correct: (R,) float64, 1 for a right answer, NaN where unscored.
        prefix: (R,) float64 in [0, 1], share of sub-questions answered before the first wrong one.
        shape: (R,) float64, quality of the process.
        is_solved: (R,) bool, whether the row's prompt had been solved before this step: the switch is the prompt's.
        prefix_weight: of the prefix reward.
        shape_weight: of the form.

    Returns:
        (R,) float64: correct + w·prefix before, correct + w·shape·correct after (form ours).
    """
    before = chosen("prefix_weight", prefix_weight, undisclosed_by="the abstract of SCOPE-RL")
    after = chosen("shape_weight", shape_weight, undisclosed_by="the abstract of SCOPE-RL")
    return correct + torch.where(is_solved, after * shape * correct, before * prefix)
