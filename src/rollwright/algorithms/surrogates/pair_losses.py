"""Losses of preference pairs: DPO and RPO.

P pairs; every log-probability is the sum over the action tokens of one response, nats. The functions do not ask where
pairs come from: fixed ones and fresh ones have one loss.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["PairLogprobs", "dpo_loss", "implicit_margins", "rpo_loss"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairLogprobs:
    """(P,) each: how likely the policy and the reference find the two responses of every pair."""

    chosen: Tensor
    """Current policy, with gradient."""
    rejected: Tensor
    """Current policy, with gradient."""
    reference_chosen: Tensor
    """Stored or computed again: the same number either way."""
    reference_rejected: Tensor

    def __post_init__(self) -> None:
        """Refuse streams of different lengths."""
        shapes = {
            tuple(stream.shape)
            for stream in (self.chosen, self.rejected, self.reference_chosen, self.reference_rejected)
        }
        if len(shapes) > 1:
            raise ObjectiveError(f"the log-probabilities of pairs have shapes {sorted(shapes)}; they need one a pair.")


def implicit_margins(pairs: PairLogprobs, *, beta: float) -> Tensor:
    """β·[(log π/f)(chosen) − (log π/f)(rejected)]: the reward difference that the policy stands for.

    Args:
        pairs: (P,) streams.
        beta: strength of the pull to the reference, reward per nat, above 0.

    Returns:
        (P,) with the gradient of the policy.
    """
    if not beta > 0.0:
        raise ObjectiveError(f"the loss of pairs has beta = {beta}; it is above 0, such as 0.1.")
    better = pairs.chosen - pairs.reference_chosen.detach()
    worse = pairs.rejected - pairs.reference_rejected.detach()
    return beta * (better - worse)


def dpo_loss(pairs: PairLogprobs, *, beta: float) -> Tensor:
    """−log σ(margin) of each pair (DPO, arXiv:2305.18290).

    Args:
        pairs: (P,) streams.
        beta: as in `implicit_margins`.

    Returns:
        (P,) nats; its gradient in log π(chosen) is −β·σ(−margin), and the opposite in log π(rejected).
    """
    return -torch.nn.functional.logsigmoid(implicit_margins(pairs, beta=beta))


def rpo_loss(pairs: PairLogprobs, reward_gaps: Tensor, *, beta: float, reward_scale: float = 1.0) -> Tensor:
    """KL between Bernoulli chances: that of η·(r(chosen) − r(rejected)) to that of the margin (RPO, arXiv:2406.11704).

    A slightly better response is preferred slightly: the loss is 0 where the margin is the scaled gap, not at infinity.

    Args:
        pairs: (P,) streams.
        reward_gaps: (P,) reward of the chosen less that of the rejected; detached.
        beta: as in `implicit_margins`.
        reward_scale: η above 0, logits per unit of reward.

    Returns:
        (P,) nats, at least 0; its gradient in the margin is σ(margin) − σ(η·gap).
    """
    if not reward_scale > 0.0:
        raise ObjectiveError(f"RPO has reward_scale = {reward_scale}; it is above 0.")
    if reward_gaps.shape != pairs.chosen.shape:
        raise ObjectiveError(
            f"reward_gaps have shape {tuple(reward_gaps.shape)} for {tuple(pairs.chosen.shape)} pairs; give one a pair."
        )
    log_chance = torch.nn.functional.logsigmoid
    margin, aim = implicit_margins(pairs, beta=beta), reward_scale * reward_gaps.detach()
    chance = torch.sigmoid(aim)
    agree = chance * (log_chance(aim) - log_chance(margin))
    return agree + (1.0 - chance) * (log_chance(-aim) - log_chance(-margin))
