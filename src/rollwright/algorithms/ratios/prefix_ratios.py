"""Ratios of prefixes: how much likelier the row up to and with this token has become (M38, CTPO).

A prefix ratio corrects the chance of reaching a state. What comes after it is the credit's: a terminal reward still
needs its expectation under the policy that learns.
"""

import torch
from torch import Tensor

from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.ratios.prefix_sums import action_places, prefix_sums
from rollwright.algorithms.ratios.sequence_ratios import MEAN_LOG_RATIO_BOUND
from rollwright.algorithms.ratios.token_ratios import Over, log_update

__all__ = ["prefix_band", "prefix_log_ratio", "prefix_mean_ratio", "prefix_ratio"]


def prefix_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """The product of token ratios up to and with each action token, with the gradient of the token's own score.

    The prefix before it is detached, as in the released CTPO; tokens between actions do not count.

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,), held at 10 nats above, beyond which the gradient is 0; 1 at masked tokens and for an unchanged policy.
    """
    return _own_gradient(prefix_log_ratio(streams, over=over), streams)


def prefix_mean_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """The geometric mean of token ratios up to and with each action token; its band narrows as 1/√t (power −0.5).

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,), with value and gradient exp(Σ/t) of the token's own score; 1 at masked tokens.
    """
    places = action_places(streams.action_mask, streams.row_offsets).clamp(min=1)
    return _own_gradient(prefix_log_ratio(streams, over=over) / places, streams)


def prefix_log_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """Σ log ρ over the action tokens of the row up to and with each.

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,) float64 nats, detached, not held by any bound; 0 at masked tokens.
    """
    log_ratio = log_update(streams, over).detach().to(torch.float64)
    return prefix_sums(log_ratio, streams.action_mask, streams.row_offsets)


def prefix_band(places: Tensor, *, low: float, high: float, power: float) -> tuple[Tensor, Tensor]:
    """The band of prefix ratios at the t-th action token: [exp(−low·t^power), exp(high·t^power)].

    The variance of a log prefix ratio grows with t, so at power 0.5 the band is equally many deviations wide.

    Args:
        places: (T,) int64 t from `action_places`, from 1; 0 at masked tokens.
        low: nats below at t = 1, at least 0.
        high: nats above at t = 1, at least 0.
        power: of t: 0.5 for the product, −0.5 for the geometric mean.

    Returns:
        (T,) float64 lower and upper bounds of the ratio itself; 0 at masked tokens.
    """
    reach = places.clamp(min=1).to(torch.float64) ** power
    is_action = places > 0
    return torch.where(is_action, (-low * reach).exp(), 0.0), torch.where(is_action, (high * reach).exp(), 0.0)


def _own_gradient(log_ratio: Tensor, streams: TokenStreams) -> Tensor:
    """(T,) exp of detached log-ratios, each with the gradient of its token's current score."""
    current = stream_of(streams, "current")
    own = (log_ratio.to(current.dtype) + (current - current.detach())).clamp(max=MEAN_LOG_RATIO_BOUND).exp()
    return torch.where(streams.action_mask, own, 1.0)
