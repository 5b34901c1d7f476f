"""Divergences between student and teacher over the whole vocabulary, at each token of the student (M23)."""

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["forward_kl", "reverse_kl"]


def reverse_kl(student: Tensor, teacher: Tensor, *, bound: float = torch.inf) -> Tensor:
    """Σ_v π·(log π − log π_T): what the sampled-token gap estimates, and its gradient at a fixed prefix.

    Args:
        student: (T, V) logits with the gradient, any float dtype; −inf excludes a token.
        teacher: (T, V) logits over the same vocabulary, detached here.
        bound: nats; a token's log-ratio is held within ±bound where the teacher excludes it or nearly so.

    Returns:
        (T,) nats, float32, or float64 from float64 logits; inf where the teacher excludes what the student may say and
        nothing bounds it.
    """
    own, other = _scores(student, teacher)
    return _expected_gap(own, other.detach(), bound)


def forward_kl(student: Tensor, teacher: Tensor, *, bound: float = torch.inf) -> Tensor:
    """Σ_v π_T·(log π_T − log π): covers all that the teacher may say; its gradient is that of soft cross-entropy.

    Args:
        student: (T, V) logits with the gradient, any float dtype; −inf excludes a token.
        teacher: (T, V) logits over the same vocabulary, detached here.
        bound: nats, of a token's log-ratio.

    Returns:
        (T,) nats, as in `reverse_kl`.
    """
    own, other = _scores(student, teacher)
    return _expected_gap(other.detach(), own, bound)


def _scores(student: Tensor, teacher: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities in float32 at least: bf16 logits would lose the difference."""
    if student.shape != teacher.shape:
        raise ObjectiveError(
            f"the student has logits {tuple(student.shape)} and the teacher {tuple(teacher.shape)}; a divergence over "
            "the vocabulary needs the same tokens and the same vocabulary."
        )
    exact = torch.promote_types(torch.promote_types(student.dtype, teacher.dtype), torch.float32)
    return torch.log_softmax(student.to(exact), -1), torch.log_softmax(teacher.to(exact), -1)


def _expected_gap(weighing: Tensor, against: Tensor, bound: float) -> Tensor:
    """Σ_v p·(log p − log q) with p = exp(weighing); what has no mass takes no part in value or gradient."""
    has_mass = weighing > -torch.inf
    safe = torch.where(has_mass, weighing, 0.0)
    gap = (safe - torch.where(has_mass, against, 0.0)).clamp(min=-bound, max=bound)
    return torch.where(has_mass, safe.exp() * gap, 0.0).sum(-1)
