"""Credit of episodes whose context was compacted: one row a segment, one outcome for all (M22)."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import Truncation, bootstrap_of_rows, next_values
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage, lambda_of_rows
from rollwright.algorithms.credit.groups import broadcast_to_tokens, count_groups, places_of
from rollwright.algorithms.credit.token_rewards import credit_of_scored, rewards_on_tokens
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import value_of

__all__ = ["Boundary", "compaction_advantage"]

Boundary = Literal["outcome", "value"]
"""What follows a segment that was compacted: the episode's outcome at once, or the value of the next segment."""


def compaction_advantage(
    inputs: CreditInputs,
    *,
    discount: float = 1.0,
    policy_lambda: float | LengthAdaptive,
    value_lambda: float = 1.0,
    boundary: Boundary = "outcome",
    truncation: Truncation = "terminal",
) -> Credit:
    """GAE across the segments of a compacted episode; summaries are actions and are trained (CompactionRL).

    "outcome" (eq. 12–15): every segment ends with the episode's reward and nothing behind it, and its advantages are
    scaled by (γλ)^n, n the action tokens of later segments. "value": the episode's segments are one stream, and the
    last token of each is followed by the critic's value of the next segment; this form is ours.

    Args:
        inputs: rows of episodes that stand together, in order of time; `predicted` (N,) values, and `bootstrap` (R,)
            under truncation "bootstrap".
        discount: γ in [0, 1]; the paper does not give it, 1 is ours.
        policy_lambda: λ in [0, 1], or adaptive: then `over` says whether it counts tokens of the row or the episode.
        value_lambda: λ of the critic's target.
        boundary: see above.
        truncation: whether the critic's value follows an episode whose last row was truncated.

    Returns:
        (N,) float64 advantages and value targets, verifier units; an unscored row gets 0 and a reason.
    """
    if boundary not in ("outcome", "value"):
        raise ObjectiveError(f"boundary is {boundary!r}; it is 'outcome' or 'value'.")
    if isinstance(policy_lambda, LengthAdaptive):
        chosen("over", policy_lambda.over, undisclosed_by="CompactionRL")
    is_last = _ends_episode(inputs)
    cut = replace(inputs, is_truncated=inputs.is_truncated & is_last)
    if boundary == "outcome":
        return _outcome_at_once(cut, discount, policy_lambda, value_lambda, truncation)
    return _one_stream(cut, is_last, (discount, policy_lambda, value_lambda), truncation)


def _outcome_at_once(
    inputs: CreditInputs,
    discount: float,
    policy_lambda: float | LengthAdaptive,
    value_lambda: float,
    truncation: Truncation,
) -> Credit:
    """Each row by itself, scaled by how far it stands from the end of the episode."""
    local = generalized_advantage(
        inputs,
        discount=discount,
        policy_lambda=policy_lambda,
        value_lambda=value_lambda,
        truncation=truncation,
    )
    decay = lambda_of_rows(policy_lambda, inputs)
    base = decay if isinstance(decay, Tensor) else torch.full_like(inputs.rewards, decay)
    scale = (discount * base) ** _later_tokens(inputs)
    return replace(local, advantages=local.advantages * broadcast_to_tokens(scale, inputs.row_offsets))


def _one_stream(
    inputs: CreditInputs,
    is_last: Tensor,
    numbers: tuple[float, float | LengthAdaptive, float],
    truncation: Truncation,
) -> Credit:
    """All rows of an episode as one: its reward stands once, on its last action token."""
    discount, policy_lambda, value_lambda = numbers
    behind = bootstrap_of_rows(inputs, truncation)[is_last]
    offsets = torch.cat([inputs.row_offsets[:1], inputs.row_offsets[1:][is_last]])
    episodes = replace(
        inputs,
        row_offsets=offsets,
        rewards=inputs.rewards[is_last],
        group_index=inputs.group_index[is_last],
        source_index=inputs.source_index[is_last],
        episode_index=inputs.episode_index[is_last],
        is_truncated=inputs.is_truncated[is_last],
    )
    values = value_of(inputs, "predicted").to(torch.float64)
    residuals = rewards_on_tokens(episodes) + discount * next_values(values, offsets, behind) - values
    decay = lambda_of_rows(policy_lambda, inputs)
    base = decay if isinstance(decay, Tensor) else torch.full_like(inputs.rewards, decay)
    ahead = backward_scan(residuals, discount * broadcast_to_tokens(base, inputs.row_offsets), offsets)
    target = backward_scan(residuals, torch.full_like(residuals, discount * value_lambda), offsets) + values
    return credit_of_scored(inputs, ahead, target)


def _ends_episode(inputs: CreditInputs) -> Tensor:
    """(R,) bool, the last row of each episode; refuses episodes whose rows do not stand together."""
    episode = inputs.episode_index
    is_last = torch.ones(len(episode), dtype=torch.bool)
    is_last[:-1] = episode.diff() != 0
    if int(is_last.sum()) != count_groups(episode):
        raise ObjectiveError(
            f"the rows of {count_groups(episode)} episodes stand in {int(is_last.sum())} runs; compaction needs the "
            "segments of an episode together, in order of time."
        )
    return is_last


def _later_tokens(inputs: CreditInputs) -> Tensor:
    """(R,) int64, action tokens in the later rows of the row's episode."""
    place = places_of(inputs.episode_index)
    end = inputs.row_offsets.new_zeros(len(place)).scatter_reduce(0, place, inputs.row_offsets[1:], "amax")[place]
    return end - inputs.row_offsets[1:]
