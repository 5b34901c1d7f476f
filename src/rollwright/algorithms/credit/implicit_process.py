"""Dense rewards from a reward model that was trained on outcomes alone (PRIME, M19)."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import check_fraction
from rollwright.algorithms.credit.groups import (
    ZERO_CONTRAST,
    GroupStatistics,
    broadcast_to_tokens,
    episode_shares,
    group_statistics,
    places_of,
    rows_where,
    totals_over,
)
from rollwright.algorithms.credit.token_rewards import credit_of_scored
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.rows import row_count, row_mean, row_sum
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import logprobs_of

__all__ = ["ProcessForm", "implicit_process_reward", "process_reward_loss", "process_rewards"]

ProcessForm = Literal["paper", "released"]
"""How a token's process reward is centered: by the mean of the other rows, or as the released code does."""


def process_rewards(inputs: CreditInputs, *, beta: float = 0.05) -> Tensor:
    """(N,) float64: β·(process − process_reference), nats scaled to verifier units, of each action token."""
    scores = logprobs_of(inputs, "process") - logprobs_of(inputs, "process_reference")
    return beta * scores.to(torch.float64)


def implicit_process_reward(
    inputs: CreditInputs, *, beta: float = 0.05, discount: float = 1.0, form: ProcessForm = "paper"
) -> Credit:
    """Centered process rewards from each token on, plus the leave-one-out outcome (PRIME: arXiv:2502.01456).

    With r̄_j the mean over row j's action tokens, "paper" sums γ^(u−t)·(r_u − mean over the others of r̄); "released"
    sums γ^(u−t)·(r_u·K − Σ_j r̄_j)/(K − 1), which differs for tokens off their row's mean. The outcome is not
    discounted in either; the released code discounts it by a γ of its own, 1 by default, and whitens last.

    Args:
        inputs: rows of whole groups, with process and process_reference scores of the implicit reward model.
        beta: β, scale of the log-ratio.
        discount: γ of process rewards, in [0, 1].
        form: see above.

    Returns:
        (N,) float64, verifier units. A group of one gets 0 and a reason (E1); one level of outcomes leaves the process
        part; an unscored row gets 0 and a reason.
    """
    check_fraction("the discount", discount)
    if form not in ("paper", "released"):
        raise ObjectiveError(f"form is {form!r}; it is 'paper' or 'released'.")
    offsets = inputs.row_offsets
    rewards = process_rewards(inputs, beta=beta)
    statistics = group_statistics(inputs)
    process = _centered(inputs, statistics, rewards, form)
    process = backward_scan(process, torch.full_like(process, discount), offsets)
    others = (statistics.num_episodes - 1).clamp(min=1.0)
    outcome = (inputs.rewards - statistics.mean) * statistics.num_episodes / others
    advantages = process.add_(broadcast_to_tokens(torch.where(statistics.has_contrast, outcome, 0.0), offsets))
    lacks_group = statistics.is_scored & statistics.has_no_baseline
    if bool(lacks_group.any()):
        advantages = torch.where(broadcast_to_tokens(lacks_group, offsets), 0.0, advantages)
    given = credit_of_scored(inputs, advantages, None)
    has_signal = row_count(given.advantages != 0, offsets) > 0
    level = dict.fromkeys(rows_where(statistics.is_scored & ~has_signal), ZERO_CONTRAST)
    return replace(given, untrained={**level, **given.untrained})


def process_reward_loss(
    process: Tensor, reference: Tensor, labels: Tensor, row_offsets: Tensor, *, beta: float = 0.05
) -> Tensor:
    """Cross-entropy of the outcome under σ(Σ_t β·(process − reference)): how the implicit reward model learns.

    Args:
        process: (N,) scores of the reward model at action tokens, nats, with its gradient.
        reference: (N,) scores of its frozen start.
        labels: (R,) in [0, 1], the outcome of each row; NaN where unscored.
        row_offsets: (R + 1,) int64 into the tokens.
        beta: β, as in the credit.

    Returns:
        (R,) nats to be minimised, one a row; 0 without gradient for an unscored row.
    """
    if len(process) != len(reference) or len(labels) != len(row_offsets) - 1:
        raise ObjectiveError(
            f"{len(process)} process scores meet {len(reference)} of the reference, and {len(labels)} labels "
            f"{len(row_offsets) - 1} rows; give one score a token of each, and one label a row."
        )
    is_scored = ~labels.isnan()
    here = broadcast_to_tokens(is_scored, row_offsets)
    scores = torch.where(here, process, 0.0) - torch.where(here, reference.detach(), 0.0)
    logits = beta * row_sum(scores, row_offsets)
    due = torch.where(is_scored, labels, 0.0).to(logits.dtype)
    losses = torch.nn.functional.binary_cross_entropy_with_logits(logits, due, reduction="none")
    return torch.where(is_scored, losses, 0.0)


def _centered(inputs: CreditInputs, statistics: GroupStatistics, rewards: Tensor, form: ProcessForm) -> Tensor:
    """(N,) process rewards minus what the group says; each episode's mean counts once."""
    offsets = inputs.row_offsets
    is_finite = rewards.isfinite()
    means = row_mean(rewards, is_finite, offsets)
    is_counted = statistics.is_scored & (row_count(is_finite, offsets) > 0)
    episode, group = places_of(inputs.episode_index), places_of(inputs.group_index)
    shares = episode_shares(is_counted, episode)
    num_episodes = totals_over(shares, group)
    total = totals_over(shares * means, group)
    own = totals_over(shares * means, episode)
    others = (num_episodes - 1).clamp(min=1.0)
    if form == "paper":
        center = torch.where(num_episodes > 1.5, (total - own) / others, 0.0)
        return rewards - broadcast_to_tokens(center, offsets)
    scale = torch.where(num_episodes > 1.5, num_episodes / others, 1.0)
    center = torch.where(num_episodes > 1.5, total / others, 0.0)
    return rewards * broadcast_to_tokens(scale, offsets) - broadcast_to_tokens(center, offsets)
