"""How far a policy is from a teacher that hands over distributions, whole or its most probable tokens (M23, M135)."""

from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.diagnostics.measurement import Diagnostic, mean_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.regularizers.full_vocabulary import exact_kl, forward_kl

__all__ = ["distillation_diagnostics", "topk_distillation_diagnostics"]

_ROUNDING: Final = 1e-9
"""Of a sum of probabilities."""


def distillation_diagnostics(logits: Tensor, teacher_logits: Tensor, mask: Tensor) -> tuple[Diagnostic, ...]:
    """Both divergences over the vocabulary, means over tokens.

    Args:
        logits: (T, V) of the policy π.
        teacher_logits: (T, V) of the teacher q.
        mask: (T,) bool; values elsewhere are not read.

    Returns:
        distill/forward_kl, KL(q ‖ π), and distill/reverse_kl, KL(π ‖ q); None over nothing.
    """
    own, given = (values[mask].detach().to(torch.float64) for values in (logits, teacher_logits))
    return (
        mean_of("distill/forward_kl", forward_kl(own, given), "nat"),
        mean_of("distill/reverse_kl", exact_kl(own, given), "nat"),
    )


def topk_distillation_diagnostics(
    logits: Tensor, teacher_ids: Tensor, teacher_logprobs: Tensor, mask: Tensor
) -> tuple[Diagnostic, ...]:
    """Both divergences where a teacher names its k most probable tokens alone: all others are one more outcome.

    Args:
        logits: (T, V) of the policy.
        teacher_ids: (T, k) int64, different in each row.
        teacher_logprobs: (T, k) nats; their probabilities sum to at most 1.
        mask: (T,) bool; values elsewhere are not read.

    Returns:
        As over the vocabulary, and at most that: what the k tokens leave together cannot be told apart.
    """
    if teacher_ids.shape != teacher_logprobs.shape or len(teacher_ids) != len(logits):
        raise ObjectiveError(
            f"teacher_ids has shape {tuple(teacher_ids.shape)}, teacher_logprobs {tuple(teacher_logprobs.shape)} and "
            f"logits {tuple(logits.shape)}; give k of each for every token."
        )
    own = logits[mask].detach().to(torch.float64).log_softmax(-1)
    named, ids = teacher_logprobs[mask].detach().to(torch.float64), teacher_ids[mask]
    parts = [torch.cat([part, _rest(part)], -1) for part in (own.gather(-1, ids), named)]
    everything = torch.ones(len(named), dtype=torch.bool, device=named.device)
    return distillation_diagnostics(parts[0], parts[1], everything)


def _rest(logprobs: Tensor) -> Tensor:
    """(n, 1) log of what is left of 1; −inf where that is no more than rounding."""
    left = 1.0 - logprobs.exp().sum(-1, keepdim=True)
    return torch.where(left > _ROUNDING, left, 0.0).log()
