"""A Gaussian gate whose width follows the token's probability and advantage: MASPO (M68)."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.masking import stream_of
from rollwright.algorithms.objective import Surrogate, TokenStreams

__all__ = ["MassAdaptiveGate"]

_LEAST, _LARGEST = 0.1, 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MassAdaptiveGate:
    """F·ρ·A, F = exp(−(ρ − 1)²/2σ²) where the token has gone its own way, else 1 (MASPO, public code).

    σ = (σ_b/o^α)·(1 + βA) for A > 0 and (σ_b/o^α)/(1 − βA) for A < 0, o the probability before the update: rare tokens
    may move farther. |A| is held in [0.1, 10] inside σ alone.
    """

    sigma_base: float = 1.0
    """σ_b, ratio."""
    alpha: float = 0.3
    """How far rare tokens may move; 0.5 for small models."""
    beta: float = 0.03
    """How far the advantage widens the good side and narrows the bad one."""
    largest_sigma: float = 10.0
    gate: Literal["detached", "differentiated"] | None = None
    """Whether F is a constant of the gradient. Not disclosed."""

    def __post_init__(self) -> None:
        """Refuse a choice that was left out, and widths that are none."""
        chosen("gate", self.gate, undisclosed_by="MASPO")
        if not (self.sigma_base > 0.0 and self.largest_sigma > 0.0 and self.alpha >= 0.0 and self.beta >= 0.0):
            raise ObjectiveError(
                f"{self} has a width that is none: sigma_base and largest_sigma are above 0, alpha and beta at least 0."
            )

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Gate each token.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages and proximal log-probabilities (T,).

        Returns:
            (T,) to be maximised; nothing is cut, so there are no flags.
        """
        gates = self.gates(ratio, streams)
        if chosen("gate", self.gate, undisclosed_by="MASPO") == "detached":
            gates = gates.detach()
        per_token = gates * ratio * streams.advantages
        return Surrogate(per_token=per_token, flags=torch.zeros_like(per_token, dtype=torch.int32))

    def gates(self, ratio: Tensor, streams: TokenStreams) -> Tensor:
        """(T,) F in (0, 1] with the gradient of the ratio; 1 for an unchanged policy and on the adverse side."""
        advantages = streams.advantages
        goes_own_way = ((advantages > 0) & (ratio > 1.0)) | ((advantages < 0) & (ratio < 1.0))
        return torch.where(
            goes_own_way, torch.exp(-(ratio - 1.0).square() / (2.0 * self.widths(streams).square())), 1.0
        )

    def widths(self, streams: TokenStreams) -> Tensor:
        """(T,) σ, ratio, detached."""
        mass = torch.exp(-self.alpha * stream_of(streams, "proximal").detach())
        size = streams.advantages.abs().clamp(min=_LEAST, max=_LARGEST)
        widened = torch.where(streams.advantages >= 0, 1.0 + self.beta * size, 1.0 / (1.0 + self.beta * size))
        return (self.sigma_base * mass * widened).clamp(max=self.largest_sigma)
