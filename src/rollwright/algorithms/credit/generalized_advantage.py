"""Generalized advantage estimation over action tokens, with a λ of its own for the critic (M12, M13)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import (
    Truncation,
    bootstrap_of_rows,
    check_fraction,
    next_values,
)
from rollwright.algorithms.credit.groups import broadcast_to_tokens, places_of, totals_over
from rollwright.algorithms.credit.token_rewards import credit_of_scored, rewards_on_tokens
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import value_of

__all__ = ["LengthAdaptive", "generalized_advantage", "lambda_of_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthAdaptive:
    """λ = max(0, 1 − 1/(α·l)) for a row of l action tokens: longer rows look farther ahead (VAPO: arXiv:2504.05118)."""

    alpha: float | None = None
    """α > 0. VAPO has 0.05, CompactionRL 1.5; Seed1.5-Thinking does not say."""
    over: Literal["row", "episode"] | None = None
    """What l counts: the tokens of the row, or of all rows of its episode. None is the row, except where the source
    leaves it open and episodes have several rows (`compaction_advantage`)."""

    def __post_init__(self) -> None:
        """Refuse a missing or useless α."""
        if not chosen("alpha", self.alpha, undisclosed_by="Seed1.5-Thinking") > 0:
            raise ObjectiveError(f"alpha is {self.alpha}; it is above 0, such as 0.05 (VAPO) or 1.5 (CompactionRL).")
        if self.over not in ("row", "episode", None):
            raise ObjectiveError(f"over is {self.over!r}; it is 'row' or 'episode'.")

    def __call__(self, lengths: Tensor) -> Tensor:
        """(R,) float64 λ in [0, 1) of rows with (R,) action tokens; 0 for an empty row."""
        reach = chosen("alpha", self.alpha, undisclosed_by="Seed1.5-Thinking") * lengths.to(torch.float64)
        return (1.0 - 1.0 / reach).clamp(min=0.0)


def generalized_advantage(
    inputs: CreditInputs,
    *,
    discount: float = 1.0,
    policy_lambda: float | LengthAdaptive = 1.0,
    value_lambda: float = 1.0,
    truncation: Truncation = "bootstrap",
) -> Credit:
    """Sum of temporal differences, decayed by γλ, over action tokens alone (GAE: arXiv:1506.02438).

    δ_t = r_t + γV_{t+1} − V_t and A_t = δ_t + γλA_{t+1}, where t + 1 is the next action token of the row: what tools
    and the environment wrote takes no step and no decay.

    Args:
        inputs: rows with `predicted` (N,) values, and `bootstrap` (R,) under "bootstrap".
        discount: γ in [0, 1].
        policy_lambda: λ of the advantage, in [0, 1], or adaptive to the length (VAPO).
        value_lambda: λ of the critic's target; 1 is the Monte-Carlo return.
        truncation: whether the critic's value follows a truncated row, or nothing.

    Returns:
        (N,) float64 advantages and value targets, verifier units; an unscored row gets 0 and a reason. A value that
        is not finite makes NaN the tokens up to it in its row, which the loss masks and counts.
    """
    check_fraction("the discount", discount)
    check_fraction("value_lambda", value_lambda)
    offsets = inputs.row_offsets
    values = value_of(inputs, "predicted").to(torch.float64)
    following = next_values(values, offsets, bootstrap_of_rows(inputs, truncation))
    residuals = rewards_on_tokens(inputs).add_(following, alpha=discount).sub_(values)
    del following
    decay = lambda_of_rows(policy_lambda, inputs)
    advantages = backward_scan(residuals, _per_token(decay, residuals, offsets) * discount, offsets)
    if isinstance(decay, float) and decay == value_lambda:
        return credit_of_scored(inputs, advantages, advantages + values)
    ahead = backward_scan(residuals, torch.full_like(residuals, value_lambda * discount), offsets)
    return credit_of_scored(inputs, advantages, ahead.add_(values))


def lambda_of_rows(given: float | LengthAdaptive, inputs: CreditInputs) -> float | Tensor:
    """The λ of every row: the number itself, or (R,) float64 by the length of the row or of its episode."""
    match given:
        case LengthAdaptive():
            lengths = inputs.row_offsets.diff()
            if given.over == "episode":
                lengths = totals_over(lengths, places_of(inputs.episode_index))
            return given(lengths)
        case number:
            check_fraction("policy_lambda", number)
            return float(number)


def _per_token(decay: float | Tensor, like: Tensor, row_offsets: Tensor) -> Tensor:
    """(N,) from one λ, or from one a row."""
    if isinstance(decay, Tensor):
        return broadcast_to_tokens(decay, row_offsets)
    return torch.full_like(like, decay)
