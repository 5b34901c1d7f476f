"""Arithmetic around a model that judges: both orders, who is compared with whom, and the reward of the judge (M117).

A judge never overrides a deterministic check; what it said is stored with its model, prompt and decoding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["BothOrders", "both_orders", "circular_pairs", "circular_scores", "judge_reward", "num_pairs"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BothOrders:
    """A comparison that was made in both orders."""

    first_wins: Tensor
    """(P,) float64 in [0, 1], chance that candidate a is better, free of position."""
    position_gap: Tensor
    """(P,) float64, |s_ab + s_ba − 1|: 0 where the order made no difference."""


def both_orders(shown_first: Tensor, shown_second: Tensor) -> BothOrders:
    """Average of the two orders, and how far they disagree.

    Args:
        shown_first: (P,) judged chance of the first place with a in it.
        shown_second: (P,) judged chance of the first place with b in it.
    """
    for name, scores in (("shown_first", shown_first), ("shown_second", shown_second)):
        if bool(((scores < 0) | (scores > 1)).any()):
            raise ObjectiveError(f"a score of {name} lies outside 0 to 1; it is the chance of the first place.")
    first, second = shown_first.to(torch.float64), shown_second.to(torch.float64)
    return BothOrders(first_wins=(first + 1.0 - second) / 2.0, position_gap=(first + second - 1.0).abs())


def circular_pairs(group_size: int) -> tuple[tuple[int, int], ...]:
    """Candidate i against i + 1, the last against the first: G calls instead of G(G − 1)/2 (Nemotron 3 Nano).

    A group of one has no pair, and one of two has both orders.
    """
    if group_size < 1:
        raise ObjectiveError(f"group_size is {group_size}; there is at least one candidate.")
    return tuple((place, (place + 1) % group_size) for place in range(group_size)) if group_size > 1 else ()


def num_pairs(group_size: int) -> int:
    """G(G − 1)/2 calls, each candidate against each other one, in one order."""
    return group_size * (group_size - 1) // 2


def circular_scores(first_wins: Tensor) -> Tensor:
    """(G,) float64: mean of the two comparisons that each candidate stood in.

    Args:
        first_wins: (G,) chance that the first of each of `circular_pairs` is better.

    Returns:
        In [0, 1], 0.5 on average; their order is the ranking. Neighbors alone were compared: it is a rough one.
    """
    wins = first_wins.to(torch.float64)
    return (wins + 1.0 - wins.roll(1)) / 2.0


def judge_reward(
    score_errors: Tensor, rank_errors: Tensor, is_malformed: Tensor, *, format_penalty: float, rank_weight: float = 1.0
) -> Tensor:
    """−Σ|score error| − w·|rank error|, and less by the penalty where the verdict is malformed (Nemotron 3 Nano).

    Args:
        score_errors: (P, 2) judged minus gold helpfulness of the two candidates.
        rank_errors: (P,) judged minus gold ranking.
        is_malformed: (P,) bool; errors of a malformed verdict are not read.
        format_penalty: at least 0; our sources do not give it.
        rank_weight: of the ranking's error.

    Returns:
        (P,) float64, at most 0.
    """
    if format_penalty < 0 or rank_weight < 0:
        raise ObjectiveError(f"format_penalty {format_penalty} and rank_weight {rank_weight} are at least 0.")
    errors = score_errors.abs().sum(dim=1) + rank_weight * rank_errors.abs()
    return -torch.where(is_malformed, format_penalty, errors.to(torch.float64))
