"""The loss of a piece: a sum of per-token terms with nothing left to divide by.

    loss = −Σ weight · correction · surrogate over kept tokens + Σ coefficient · weight · regularizer over action tokens

Weights were made on the whole update, so the losses of pieces add up to the loss of the update, however it was cut.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.flags import NON_FINITE, ZERO_ADVANTAGE, raise_flag
from rollwright.algorithms.masking import clean_streams
from rollwright.algorithms.objective import Keep, Objective, Regularizer, TokenStreams

__all__ = ["LossTerms", "kept_tokens", "loss_terms"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossTerms:
    """The loss of a piece by component and token, and what happened to each token."""

    terms: Mapping[str, Tensor]
    """Component to (T,) float64 with gradient; 0 outside kept (main) or action (regularizer) tokens."""
    keep: Tensor
    """(T,) bool, tokens in the numerator of the main component."""
    flags: Tensor
    """(T,) int32 bits; 0 outside the action mask."""
    correction: Tensor
    """(T,) detached; 1 where nothing was corrected."""
    ratio: Tensor
    """(T,) detached; 1 outside the action mask."""

    @property
    def loss(self) -> Tensor:
        """Scalar float64; 0 with a graph where nothing is trained, so that every rank can go backward."""
        return torch.stack([term.sum() for term in self.terms.values()]).sum()


def loss_terms(objective: Objective, streams: TokenStreams, regularizer_weights: Mapping[str, Tensor]) -> LossTerms:
    """Compute the loss of a piece.

    Args:
        objective: the composition.
        streams: a piece; (T,) streams may hold anything under a mask.
        regularizer_weights: component of each regularizer to (T,) float64 weights.

    Returns:
        The terms; with no action token, zeros that still have a graph.
    """
    cleaned = clean_streams(streams, objective.needs | ({"current"} & streams.logprobs.keys()))
    clean = cleaned.streams
    kept = objective.keep(clean)
    keep = kept.keep & clean.action_mask
    correction = torch.where(clean.action_mask, objective.correction(clean).detach(), 1.0)
    ratio = objective.ratio(clean)
    surrogate = objective.surrogate(ratio, clean)
    flags = (
        kept.flags
        | torch.where(keep, surrogate.flags, 0)
        | raise_flag(cleaned.non_finite, NON_FINITE)
        | raise_flag(clean.action_mask & (clean.advantages == 0), ZERO_ADVANTAGE)
    )
    terms = {objective.component: torch.where(keep, -clean.token_weights * correction * surrogate.per_token, 0.0)}
    for regularizer in objective.regularizers:
        terms[regularizer.component] = _regularizer_term(regularizer, clean, regularizer_weights)
    return LossTerms(
        terms={name: term.to(torch.float64) for name, term in terms.items()},
        keep=keep,
        flags=torch.where(streams.action_mask, flags, 0),
        correction=correction,
        ratio=torch.where(clean.action_mask, ratio.detach(), 1.0),
    )


def kept_tokens(objective: Objective, streams: TokenStreams) -> Keep:
    """Which tokens stay in the numerator, before weights and before any update: what `kept` denominators count.

    Args:
        objective: the composition.
        streams: with behavior and, where the objective needs it, proximal; other scores are not read.

    Returns:
        The mask, within action tokens whose streams are finite, and its flags.
    """
    cleaned = clean_streams(streams, objective.needs & {"behavior", "proximal"})
    kept = objective.keep(cleaned.streams)
    return Keep(
        keep=kept.keep & cleaned.streams.action_mask,
        flags=torch.where(streams.action_mask, kept.flags | raise_flag(cleaned.non_finite, NON_FINITE), 0),
    )


def _regularizer_term(regularizer: Regularizer, clean: TokenStreams, weights: Mapping[str, Tensor]) -> Tensor:
    given = weights.get(regularizer.component)
    if given is None:
        raise ObjectiveError(
            f"the regularizer {regularizer.component!r} has no token weights; the piece has {sorted(weights)}. "
            "The planner makes weights for every component of the objective."
        )
    match regularizer.coefficient:
        case float() | int() as coefficient:
            pass
        case controller:
            coefficient = controller.value()
    value = regularizer.per_token(clean)
    return torch.where(clean.action_mask, coefficient * torch.where(clean.action_mask, given, 0.0) * value, 0.0)
