"""Ratios of probabilities of the sampled token (M35).

`update_ratio` is current/proximal, `staleness_ratio` proximal/behavior. A bypass objective has no proximal policy and
uses current/behavior, which is both at once. Log-ratios are clamped to ±20 before exp: beyond it the gradient is 0.
"""

from typing import Final, Literal

import torch
from torch import Tensor

from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import TokenStreams

__all__ = [
    "LOG_RATIO_BOUND",
    "Corrected",
    "Over",
    "bypass_ratio",
    "clamped_exp",
    "log_correction",
    "log_update",
    "no_ratio",
    "staleness_ratio",
    "token_ratio",
]

LOG_RATIO_BOUND: Final = 20.0

Over = Literal["proximal", "behavior"]
"""What current is divided by: proximal, the size of the update; behavior, staleness and mismatch as well."""

Corrected = Literal["proximal", "current"]
"""What is divided by behavior: proximal, known before the update; current, known only in it (bypass mode)."""


def token_ratio(streams: TokenStreams) -> Tensor:
    """The update ratio exp(c − o), current over proximal, with the gradient of current (PPO).

    It corrects the action at the recorded prefix, not the chance of reaching the prefix.

    Args:
        streams: cleaned; proximal is the learner's score just before the update.

    Returns:
        (T,); 1 at masked tokens and for an unchanged policy.
    """
    return clamped_exp(stream_of(streams, "current") - stream_of(streams, "proximal"))


def bypass_ratio(streams: TokenStreams) -> Tensor:
    """exp(c − b), current over behavior: staleness and engine mismatch meet in the clip.

    Args:
        streams: cleaned; behavior is what the engine sampled from.

    Returns:
        (T,) with the gradient of current; 1 at masked tokens.
    """
    return clamped_exp(stream_of(streams, "current") - stream_of(streams, "behavior"))


def no_ratio(streams: TokenStreams) -> Tensor:
    """Ones: for surrogates that read the log-probability itself.

    Args:
        streams: any.

    Returns:
        (T,) without gradient.
    """
    return torch.ones_like(streams.advantages)


def staleness_ratio(streams: TokenStreams) -> Tensor:
    """exp(o − b), proximal over behavior, detached; 1 where the policy that sampled is the one that learns.

    Args:
        streams: cleaned.

    Returns:
        (T,) without gradient; 1 at masked tokens.
    """
    return clamped_exp((stream_of(streams, "proximal") - stream_of(streams, "behavior")).detach())


def log_update(streams: TokenStreams, over: Over) -> Tensor:
    """(T,) nats, current minus `over`, with the gradient of current; 0 at masked tokens of cleaned streams."""
    return stream_of(streams, "current") - stream_of(streams, over)


def log_correction(streams: TokenStreams, of: Corrected) -> Tensor:
    """(T,) nats, `of` minus behavior, detached; 0 at masked tokens of cleaned streams."""
    return (stream_of(streams, of) - stream_of(streams, "behavior")).detach()


def clamped_exp(log_ratio: Tensor, *, bound: float = LOG_RATIO_BOUND) -> Tensor:
    """Exponential of log-ratios within ±bound nats: finite in float32, with gradient 0 strictly beyond."""
    return log_ratio.clamp(min=-bound, max=bound).exp()
