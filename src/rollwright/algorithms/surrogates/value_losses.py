"""Losses of a critic: clipped squares, Huber, and histograms of returns (M71).

Per token, to be minimised; the caller's denominator makes the mean over action tokens.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import TokenStreams

__all__ = ["ClippedValueLoss", "HuberValueLoss", "ValueBins", "clipped_value_loss", "hl_gauss_loss", "huber_value_loss"]


def clipped_value_loss(values: Tensor, previous: Tensor, targets: Tensor, *, reach: float = 0.2) -> Tensor:
    """½·max((V − T)², (V held within `reach` of V_old − T)²): the critic gains nothing by leaving its reach (PPO code).

    Args:
        values: (T,) V, with gradient.
        previous: (T,) V_old, from before the update.
        targets: (T,) T, returns; detached.
        reach: ε, in the unit of the rewards.

    Returns:
        (T,) squared rewards; gradient 0 where the held value is the worse one.
    """
    _check_shapes(values, previous=previous, targets=targets)
    start = previous.detach()
    is_outside = (values - start).abs() > reach
    held = torch.where(is_outside, torch.minimum(torch.maximum(values, start - reach), start + reach).detach(), values)
    aim = targets.detach()
    return torch.maximum((values - aim).square(), (held - aim).square()) / 2.0


def huber_value_loss(values: Tensor, targets: Tensor, *, delta: float = 10.0) -> Tensor:
    """½(V − T)² within δ, then δ·(|V − T| − δ/2): a gradient of at most δ (public SAO code: δ = 10).

    Args:
        values: (T,) with gradient.
        targets: (T,) returns; detached.
        delta: δ above 0, in the unit of the rewards.

    Returns:
        (T,)
    """
    _check_shapes(values, targets=targets)
    if not delta > 0.0:
        raise ObjectiveError(f"the Huber loss has delta = {delta}; it is above 0, such as 10.")
    return torch.nn.functional.huber_loss(values, targets.detach(), reduction="none", delta=delta)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueBins:
    """Equal bins over the range of returns, for a critic that predicts a histogram (HL-Gauss, arXiv:2403.03950)."""

    low: float
    """Left edge of the first bin, in the unit of the rewards."""
    high: float
    """Right edge of the last bin."""
    num_bins: int = 51
    """K"""
    smoothing: float = 0.75
    """σ of a return's Gaussian, in widths of a bin."""

    def __post_init__(self) -> None:
        """Refuse bins without width."""
        if not (self.low < self.high and self.num_bins >= 2 and self.smoothing > 0.0):
            raise ObjectiveError(
                f"{self} has no width; low is under high, with 2 bins or more and a smoothing above 0."
            )

    def edges(self, like: Tensor) -> Tensor:
        """(K + 1,) edges, in the dtype and on the device of `like`."""
        return torch.linspace(self.low, self.high, self.num_bins + 1, dtype=like.dtype, device=like.device)

    def histogram(self, returns: Tensor) -> Tensor:
        """(T, K) the mass of each return's Gaussian in each bin, normalised; returns are held in range."""
        edges = self.edges(returns)
        sigma = self.smoothing * (self.high - self.low) / self.num_bins
        held = returns.clamp(min=self.low, max=self.high)
        below = torch.erf((edges - held.unsqueeze(-1)) / (sigma * math.sqrt(2.0)))
        mass = below.diff(dim=-1)
        return mass / (below[..., -1:] - below[..., :1])

    def expected(self, logits: Tensor) -> Tensor:
        """(T,) the value that (T, K) logits predict: the mean of the bins' centers."""
        edges = self.edges(logits)
        return logits.softmax(-1) @ ((edges[1:] + edges[:-1]) / 2.0)


def hl_gauss_loss(logits: Tensor, targets: Tensor, *, bins: ValueBins) -> Tensor:
    """Cross-entropy between a return's histogram and the predicted one.

    Args:
        logits: (T, K) with gradient.
        targets: (T,) returns; detached.
        bins: the range; returns outside are held at its ends.

    Returns:
        (T,) nats; its gradient is predicted less due mass.
    """
    if logits.shape != (*targets.shape, bins.num_bins):
        raise ObjectiveError(
            f"logits have shape {tuple(logits.shape)} for targets of {tuple(targets.shape)}; they need one row of "
            f"{bins.num_bins} bins a target."
        )
    return -(bins.histogram(targets.detach()) * logits.log_softmax(-1)).sum(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedValueLoss:
    """`clipped_value_loss` over the value streams `current`, `previous` and `target` of a piece."""

    reach: float = 0.2
    """ε"""

    def __call__(self, streams: TokenStreams) -> Tensor:
        """(T,) to be minimised; 0 at masked tokens of cleaned streams."""
        current, previous, target = (_values(streams, name) for name in ("current", "previous", "target"))
        return clipped_value_loss(current, previous, target, reach=self.reach)


@dataclass(frozen=True, slots=True, kw_only=True)
class HuberValueLoss:
    """`huber_value_loss` over the value streams `current` and `target` of a piece."""

    delta: float = 10.0
    """δ"""

    def __call__(self, streams: TokenStreams) -> Tensor:
        """(T,) to be minimised; 0 at masked tokens of cleaned streams."""
        return huber_value_loss(_values(streams, "current"), _values(streams, "target"), delta=self.delta)


def _values(streams: TokenStreams, name: str) -> Tensor:
    found = streams.values.get(name)
    if found is None:
        raise ObjectiveError(
            f"the value loss reads `{name}` values, but the piece has {sorted(streams.values)}. Add 'values' to the "
            "objective's `needs`."
        )
    return found


def _check_shapes(values: Tensor, **others: Tensor) -> None:
    for name, other in others.items():
        if other.shape != values.shape:
            raise ObjectiveError(
                f"{name} have shape {tuple(other.shape)}, values {tuple(values.shape)}; they are equal."
            )
