"""Estimators of the KL divergence from the reference, as per-token loss terms (M81).

With d = current − reference at the sampled token. As a loss their gradients differ: k1 has mean zero, k2 is the
reverse-KL gradient for on-policy tokens, k3 is biased; `kl_k3_plus` reports k3 and follows k2.
"""

from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.ratios.token_ratios import LOG_RATIO_BOUND

__all__ = ["K3_BOUND", "is_k3_clamped", "k3_of", "kl_k1", "kl_k2", "kl_k3", "kl_k3_plus"]

K3_BOUND: Final = 10.0
"""The value of k3 is held here, reached at d ≈ −2.61 and 11: beyond, its gradient is 0."""


def kl_k1(streams: TokenStreams) -> Tensor:
    """d: unbiased and signed.

    Args:
        streams: cleaned, with current and reference.

    Returns:
        (T,) nats; 0 at masked tokens.
    """
    return _distance(streams)


def kl_k2(streams: TokenStreams) -> Tensor:
    """d²/2: never negative, biased in value, right in gradient.

    Args:
        streams: cleaned, with current and reference.

    Returns:
        (T,) nats; 0 at masked tokens.
    """
    return _distance(streams).square() / 2.0


def kl_k3(streams: TokenStreams) -> Tensor:
    """exp(−d) − 1 + d: never negative, unbiased in value.

    Args:
        streams: cleaned, with current and reference.

    Returns:
        (T,) nats, at most 10, finite in value and gradient for any d; 0 at masked tokens.
    """
    return k3_of(_distance(streams))


def kl_k3_plus(streams: TokenStreams) -> Tensor:
    """The value of k3 with the gradient of k2 (straight-through).

    Args:
        streams: cleaned, with current and reference.

    Returns:
        (T,) nats; 0 at masked tokens.
    """
    distance = _distance(streams)
    followed = distance.square() / 2.0
    return k3_of(distance.detach()) + (followed - followed.detach())


def k3_of(distance: Tensor) -> Tensor:
    """k3 of (T,) log-ratios d = log p − log q, d held in ±20 before exp and the value at 10."""
    held = distance.clamp(min=-LOG_RATIO_BOUND, max=LOG_RATIO_BOUND)
    return (torch.expm1(-held) + held).clamp(min=-K3_BOUND, max=K3_BOUND)


def is_k3_clamped(distance: Tensor) -> Tensor:
    """(T,) bool, True where k3 of these log-ratios is held by a bound and has no gradient."""
    held = distance.clamp(min=-LOG_RATIO_BOUND, max=LOG_RATIO_BOUND)
    return (distance.abs() > LOG_RATIO_BOUND) | ((torch.expm1(-held) + held) > K3_BOUND)


def _distance(streams: TokenStreams) -> Tensor:
    return stream_of(streams, "current") - stream_of(streams, "reference")
