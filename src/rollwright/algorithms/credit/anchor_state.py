"""Credit by what other attempts earned from the same state (GiGPO, M15)."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.bootstrapping import check_fraction
from rollwright.algorithms.credit.groups import (
    UNSCORED,
    ZERO_CONTRAST,
    GroupStatistics,
    group_statistics,
    places_of,
    rows_where,
)
from rollwright.algorithms.credit.token_rewards import rewards_on_tokens
from rollwright.algorithms.credit.turns import Turns, turns_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.rows import row_count, row_of_tokens
from rollwright.algorithms.scans import discounted_sums

__all__ = ["AnchorStateParts", "Scaling", "anchor_state_advantage", "anchor_state_parts"]

Scaling = Literal["none", "std"]
"""Of a distance from a mean: verifier units, or units of the standard deviation."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AnchorStateParts:
    """What the two comparisons say, before they are added."""

    turns: Turns
    step_returns: Tensor
    """(S,) float64, discounted reward from each turn on; NaN in unscored rows."""
    episode: Tensor
    """(R,) float64, of the episode among the attempts at its task."""
    step: Tensor
    """(S,) float64, of the turn among all turns of the task that began in an equal state."""


def anchor_state_advantage(
    inputs: CreditInputs,
    *,
    discount: float = 0.95,
    step_weight: float = 1.0,
    scaling: Scaling = "none",
    eps: float = 1e-6,
    episode_discount: float = 1.0,
) -> Credit:
    """Episode against episode, plus turn against turn from equal states: A = A^E + ω·A^S (GiGPO: arXiv:2505.10978).

    An episode counts once in A^E, however many turns it has. A turn whose state nobody else began in gets A^S = 0.

    Args:
        inputs: rows of whole groups; `turn_index` (N,), and `state_index` (N,), read at a turn's first action token:
            identities of environment states, not of prompts; −1 where unknown.
        discount: γ of the turn's return, a turn, in [0, 1].
        step_weight: ω.
        scaling: "none" centers alone; "std" divides by the standard deviation (ddof 1) plus `eps`, in both parts.
        eps: verifier units.
        episode_discount: γ of the episode's return; 1 is the public code, `discount` the survey's formula.

    Returns:
        (N,) float64, verifier units under "none". A group of one gets 0 (E1); a level comparison gives 0 in its part
        (E2); rows with 0 everywhere and unscored rows get a reason.
    """
    if not step_weight >= 0:
        raise ObjectiveError(f"step_weight is {step_weight}; it is at least 0.")
    parts = anchor_state_parts(inputs, discount=discount, scaling=scaling, eps=eps, episode_discount=episode_discount)
    row_of_turn = row_of_tokens(parts.turns.row_offsets)
    per_turn = parts.episode[row_of_turn] + step_weight * parts.step
    is_scored = ~inputs.rewards.isnan()
    has_signal = row_count(per_turn != 0, parts.turns.row_offsets) > 0
    return Credit(
        advantages=per_turn[parts.turns.of_token],
        value_targets=None,
        untrained={
            **dict.fromkeys(rows_where(is_scored & ~has_signal), ZERO_CONTRAST),
            **dict.fromkeys(rows_where(~is_scored), UNSCORED),
        },
    )


def anchor_state_parts(
    inputs: CreditInputs,
    *,
    discount: float = 0.95,
    scaling: Scaling = "none",
    eps: float = 1e-6,
    episode_discount: float = 1.0,
) -> AnchorStateParts:
    """The two comparisons of `anchor_state_advantage`, which has the arguments; both 0 where there is none."""
    check_fraction("the discount", discount)
    check_fraction("episode_discount", episode_discount)
    if scaling not in ("none", "std") or not eps >= 0:
        raise ObjectiveError(f"scaling is {scaling!r} and eps {eps}; scaling is 'none' or 'std', eps at least 0.")
    turns = turns_of(inputs)
    rewards = turns.sum_of(rewards_on_tokens(inputs))
    is_scored = ~inputs.rewards.isnan()
    episodes = group_statistics(replace(inputs, rewards=_episode_returns(inputs, turns, rewards, episode_discount)))
    row_of_turn = row_of_tokens(turns.row_offsets)
    returns = torch.where(is_scored[row_of_turn], discounted_sums(rewards, turns.row_offsets, discount), torch.nan)
    steps = _step_statistics(inputs, turns, returns)
    compared = torch.where(episodes.has_no_baseline[row_of_turn], 0.0, _distance(returns, steps, scaling, eps))
    episode_returns = _episode_returns(inputs, turns, rewards, episode_discount)
    return AnchorStateParts(
        turns=turns,
        step_returns=returns,
        episode=_distance(episode_returns, episodes, scaling, eps),
        step=compared,
    )


def _episode_returns(inputs: CreditInputs, turns: Turns, rewards: Tensor, discount: float) -> Tensor:
    """(R,) return of each row from its first turn; its reward where it has no turn, NaN where unscored."""
    has_turns = turns.row_offsets.diff() > 0
    returns = inputs.rewards.to(torch.float64).clone()
    from_first = discounted_sums(rewards, turns.row_offsets, discount)[turns.row_offsets[:-1][has_turns]]
    returns[has_turns] = torch.where(returns[has_turns].isnan(), torch.nan, from_first)
    return returns


def _step_statistics(inputs: CreditInputs, turns: Turns, returns: Tensor) -> GroupStatistics:
    """Every turn an attempt of its own, grouped by task and state; an unknown state is a group of one."""
    num_turns = len(turns.starts)
    state, row = inputs.state_index[turns.starts], row_of_tokens(turns.row_offsets)
    group = places_of(inputs.group_index)[row]
    known = places_of(state) + group * (num_turns + 1)
    turn = torch.arange(num_turns)
    key = torch.where(state < 0, -1 - turn, known)
    attempts = replace(
        inputs,
        row_offsets=torch.cat([turns.starts, inputs.row_offsets[-1:]]),
        rewards=returns,
        group_index=key,
        source_index=inputs.source_index[row],
        episode_index=turn,
        is_truncated=inputs.is_truncated[row],
    )
    return group_statistics(attempts)


def _distance(returns: Tensor, statistics: GroupStatistics, scaling: Scaling, eps: float) -> Tensor:
    """Distance from the mean, in verifier units or in units of the spread; 0 without contrast."""
    spread = (statistics.squares / (statistics.num_episodes - 1).clamp(min=1.0)).sqrt() + eps
    unit = torch.where(statistics.has_contrast, spread, 1.0) if scaling == "std" else 1.0
    return torch.where(statistics.has_contrast, (returns - statistics.mean) / unit, 0.0)
