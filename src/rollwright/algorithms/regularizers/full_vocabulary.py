"""Entropy and KL over the whole vocabulary, from logits: exact, differentiable, finite where a probability is 0.

Logits are raised to float32 at least before they are normalised: a step of bfloat16 near 20 is 0.125 nats.
"""

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["entropy_of_logits", "exact_kl", "forward_kl"]


def entropy_of_logits(logits: Tensor, *, temperature: float = 1.0) -> Tensor:
    """−Σ π log π of softmax(logits / temperature) (M85).

    Args:
        logits: (…, V) any float type; −inf is a probability of 0.
        temperature: above 0; the one that was sampled at for control, a common one for comparison.

    Returns:
        (…) nats, with gradient; a probability of 0 adds nothing to value or gradient.
    """
    if not temperature > 0:
        raise ObjectiveError(f"the temperature of an entropy is {temperature}; it is above 0.")
    logps = _log_probabilities(logits / temperature)
    return -_expectation(logps, logps)


def exact_kl(logits: Tensor, reference_logits: Tensor) -> Tensor:
    """Σ π (log π − log f), the reverse KL of M81: what the estimators k1, k2 and k3 sample.

    Args:
        logits: (…, V) of π, with gradient.
        reference_logits: (…, V) of f.

    Returns:
        (…) nats, at least 0 but for rounding; inf where π has mass that f lacks.
    """
    logps, others = _pair(logits, reference_logits)
    return _expectation(logps, logps - _finite_where(logps, others))


def forward_kl(logits: Tensor, reference_logits: Tensor) -> Tensor:
    """Σ f (log f − log π): the KL whose gradient pulls π over all of f.

    Args:
        logits: (…, V) of π, with gradient.
        reference_logits: (…, V) of f.

    Returns:
        (…) nats, at least 0 but for rounding; inf where f has mass that π lacks.
    """
    logps, others = _pair(logits, reference_logits)
    return _expectation(others, others - _finite_where(others, logps))


def _pair(logits: Tensor, others: Tensor) -> tuple[Tensor, Tensor]:
    if logits.shape != others.shape:
        raise ObjectiveError(
            f"a KL over the vocabulary got logits of {tuple(logits.shape)} and {tuple(others.shape)}; give both of one "
            "shape (…, V)."
        )
    return _log_probabilities(logits), _log_probabilities(others)


def _log_probabilities(logits: Tensor) -> Tensor:
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).log_softmax(-1)


def _expectation(logps: Tensor, values: Tensor) -> Tensor:
    """Σ exp(logps)·values, the zero put in before the product: 0·(−inf) has no gradient."""
    has_mass = logps > -torch.inf
    return (torch.where(has_mass, logps, -torch.inf).exp() * torch.where(has_mass, values, 0.0)).sum(-1)


def _finite_where(of: Tensor, values: Tensor) -> Tensor:
    """`values`, 0 where `of` has no mass, so that a difference of two −inf never arises."""
    return torch.where(of > -torch.inf, values, 0.0)
