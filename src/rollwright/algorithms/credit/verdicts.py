"""A policy that also says whether an answer is right, and votes weighted by what it says (RL^V, M20)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import places_of, totals_over
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["Vote", "verdict_loss", "verdict_scores", "verdict_weights", "weighted_vote"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """What N answers and their scores come to."""

    totals: Mapping[str, float]
    """Answer to its summed score, in order of first appearance."""
    winner: str
    """The answer with the largest sum; of equals the first."""
    best_index: int
    """The answer with the largest score of its own (best of N); of equals the first."""


def verdict_scores(logits: Tensor, *, yes_token: int) -> Tensor:
    """π(Yes) after "is this correct?".

    Args:
        logits: (R, V), any float dtype, at the position of the verdict.
        yes_token: id of the token that says yes.

    Returns:
        (R,) in [0, 1], float32, or float64 from float64 logits.
    """
    exact = torch.promote_types(logits.dtype, torch.float32)
    return torch.softmax(logits.to(exact), -1)[:, yes_token]


def verdict_loss(logits: Tensor, is_correct: Tensor, *, yes_token: int, no_token: int) -> Tensor:
    """Cross-entropy of the right verdict, over the whole vocabulary (RL^V: arXiv:2505.04842).

    The loss stands at the verdict alone; the tokens of the rollout have no loss here.

    Args:
        logits: (R, V) with the gradient, any float dtype, at the position of the verdict.
        is_correct: (R,) float, 1 or 0 as the environment judged; NaN where unscored.
        yes_token: id of the token that says yes.
        no_token: id of the token that says no.

    Returns:
        (R,) nats to be minimised, one a row; 0 without gradient for an unscored row.
    """
    if len(logits) != len(is_correct) or yes_token == no_token:
        raise ObjectiveError(
            f"{len(logits)} verdicts meet {len(is_correct)} outcomes, yes is token {yes_token} and no {no_token}; give "
            "one outcome a verdict and two different tokens."
        )
    exact = torch.promote_types(logits.dtype, torch.float32)
    is_scored = ~is_correct.isnan()
    due = torch.where(is_correct > 0.5, yes_token, no_token)
    safe = torch.where(is_scored[:, None], logits.to(exact), 0.0)
    losses = torch.nn.functional.cross_entropy(safe, due, reduction="none")
    return torch.where(is_scored, losses, 0.0)


def verdict_weights(is_correct: Tensor, group_index: Tensor, *, coefficient: float | None = None) -> Tensor:
    """Weights of the verdict losses: λ_v in all, one share a prompt, and half of it for each verdict.

    The balance within a prompt is ours; a prompt whose attempts agree has one class, with all of its share.

    Args:
        is_correct: (R,) float, 1 or 0; NaN where unscored.
        group_index: (R,) int64, prompts.
        coefficient: λ_v.

    Returns:
        (R,) float64, summing to λ_v; 0 where unscored.
    """
    factor = chosen("coefficient", coefficient, undisclosed_by="RL^V")
    is_scored = ~is_correct.isnan()
    prompt = places_of(group_index)
    verdict = places_of(2 * prompt + (is_correct > 0.5).to(torch.int64))
    counted = is_scored.to(torch.float64)
    in_class = totals_over(counted, verdict).clamp(min=1.0)
    num_classes = totals_over(counted / in_class, prompt).clamp(min=1.0)
    per_row = counted / in_class / num_classes
    num_prompts = (per_row.sum()).clamp(min=1.0)
    return factor * per_row / num_prompts


def weighted_vote(scores: Sequence[float], answers: Sequence[str]) -> Vote:
    """Sum the verifier's scores by canonical answer.

    Args:
        scores: v of each of N answers, finite.
        answers: their canonical forms.

    Returns:
        The sums, the answer that wins, and the single best; of equal sums and scores the first wins.
    """
    if not scores or len(scores) != len(answers):
        raise ObjectiveError(
            f"{len(scores)} scores meet {len(answers)} answers; give one score an answer, at least one."
        )
    totals: dict[str, float] = {}
    for score, answer in zip(scores, answers, strict=True):
        totals[answer] = totals.get(answer, 0.0) + score
    return Vote(
        totals=totals,
        winner=max(totals, key=lambda answer: totals[answer]),
        best_index=max(range(len(scores)), key=lambda place: scores[place]),
    )
