"""Surrogates of the log-probability itself: the score-function gradient and plain likelihood."""

import torch
from torch import Tensor

from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams

__all__ = ["log_likelihood", "policy_gradient", "weigh_logprobs"]


def policy_gradient(ratio: Tensor, streams: TokenStreams) -> Surrogate:
    """A·c, whose gradient is the advantage (REINFORCE, GPG's loss M56; M48 with its weight in the correction).

    Args:
        ratio: (T,) not read: the gradient belongs to the policy that sampled.
        streams: cleaned; advantages and current log-probabilities (T,).

    Returns:
        (T,) to be maximised, without flags.
    """
    del ratio
    return _unflagged(streams.advantages * stream_of(streams, "current"))


def log_likelihood(ratio: Tensor, streams: TokenStreams) -> Surrogate:
    """The log-probability of every action token: imitation.

    Args:
        ratio: (T,) not read.
        streams: cleaned; current log-probabilities (T,).

    Returns:
        (T,) nats to be maximised, without flags.
    """
    del ratio
    return _unflagged(stream_of(streams, "current"))


def weigh_logprobs(coefficients: Tensor, flags: Tensor, streams: TokenStreams) -> Surrogate:
    """sg(coefficient)·c: the gradient of a token is its coefficient, whatever the coefficient was made of.

    Args:
        coefficients: (T,) weight times advantage; detached here, since differentiating it adds the wrong term.
        flags: (T,) int32 bits.
        streams: cleaned; current log-probabilities (T,).

    Returns:
        (T,) to be maximised, with these flags.
    """
    return Surrogate(per_token=coefficients.detach() * stream_of(streams, "current"), flags=flags)


def _unflagged(per_token: Tensor) -> Surrogate:
    return Surrogate(per_token=per_token, flags=torch.zeros_like(per_token, dtype=torch.int32))
