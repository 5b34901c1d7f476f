"""Ratios of whole rows: the product of token ratios (M36), and its geometric mean (M37, GSPO).

The product is the importance weight of the row, unbiased, with a variance that grows with length: 1.1 a token is 2.59
after 10 tokens and 13,781 after 100. The geometric mean is 1.1 at any length, and no importance weight.
"""

from typing import Final

import torch
from torch import Tensor

from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import TokenStreams
from rollwright.algorithms.ratios.token_ratios import Over, clamped_exp, log_update
from rollwright.algorithms.rows import row_mean, row_sum, spread_rows

__all__ = [
    "MEAN_LOG_RATIO_BOUND",
    "sequence_mean_ratio",
    "sequence_product_ratio",
    "sequence_token_ratio",
]

MEAN_LOG_RATIO_BOUND: Final = 10.0
"""Upper bound of a row's mean log-ratio before exp (verl): beyond it the gradient is 0."""


def sequence_product_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """The product of a row's token ratios, exp(Σ log ρ), once a token (M36).

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,), the same at every action token of a row, with the gradient of all of them; the sum is made in float64 and
        held in ±20 nats, beyond which the gradient is 0. 1 at masked tokens.
    """
    log_ratio = log_update(streams, over)
    total = row_sum(_on_actions(log_ratio, streams), streams.row_offsets)
    return _spread(clamped_exp(total).to(log_ratio.dtype), streams)


def sequence_mean_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """The geometric mean of a row's token ratios, exp(Σ log ρ / n), once a token (M37, GSPO: arXiv:2507.18071).

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,), the same at every action token of a row, with the gradient of all of them (1/n each); the mean is held at
        10 nats above. 1 at masked tokens; a row without action tokens has none.
    """
    log_ratio = log_update(streams, over)
    return _spread(_bounded_exp(_row_mean(log_ratio, streams)).to(log_ratio.dtype), streams)


def sequence_token_ratio(streams: TokenStreams, *, over: Over = "proximal") -> Tensor:
    """GSPO-token: the value of the row's geometric mean, with the gradient of the token's own log-probability.

    For one advantage a row and weights that are even within it, the gradient is that of `sequence_mean_ratio`; with
    advantages that differ along the row only this form gives each token its own.

    Args:
        streams: cleaned.
        over: what current is divided by.

    Returns:
        (T,), sg(s)·exp(c − sg(c)); 1 at masked tokens.
    """
    log_ratio = log_update(streams, over)
    current = stream_of(streams, "current")
    mean = spread_rows(_row_mean(log_ratio.detach(), streams).to(log_ratio.dtype), streams.row_offsets)
    own = _bounded_exp(mean + (current - current.detach()))
    return torch.where(streams.action_mask, own, 1.0)


def _on_actions(log_ratio: Tensor, streams: TokenStreams) -> Tensor:
    return torch.where(streams.action_mask, log_ratio.to(torch.float64), 0.0)


def _row_mean(log_ratio: Tensor, streams: TokenStreams) -> Tensor:
    """(rows,) float64; 0 for a row without action tokens."""
    return row_mean(log_ratio.to(torch.float64), streams.action_mask, streams.row_offsets)


def _bounded_exp(log_ratio: Tensor) -> Tensor:
    return log_ratio.clamp(max=MEAN_LOG_RATIO_BOUND).exp()


def _spread(per_row: Tensor, streams: TokenStreams) -> Tensor:
    return torch.where(streams.action_mask, spread_rows(per_row, streams.row_offsets), 1.0)
