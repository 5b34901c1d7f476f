"""A sigmoid in place of the clip: SAPO (M55)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Surrogate, TokenStreams
from rollwright.algorithms.surrogates.by_sign import choose

__all__ = ["SoftGate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftGate:
    """(4/τ)·σ(τ(ρ − 1))·A: the gradient of an unchanged policy is A and fades both ways (SAPO, arXiv:2511.20347)."""

    tau_positive: float = 1.0
    """τ where A > 0, per unit of ratio."""
    tau_negative: float = 1.05
    """τ elsewhere; higher fades faster."""

    def __post_init__(self) -> None:
        """Refuse a temperature that does not fade."""
        for name, value in (("tau_positive", self.tau_positive), ("tau_negative", self.tau_negative)):
            if not value > 0.0:
                raise ObjectiveError(f"the soft gate has {name} = {value}; it is above 0, such as 1.")

    def __call__(self, ratio: Tensor, streams: TokenStreams) -> Surrogate:
        """Pass each ratio through the gate of its sign.

        Args:
            ratio: (T,) with the gradient of current.
            streams: cleaned; advantages (T,).

        Returns:
            (T,) to be maximised; nothing is cut, so there are no flags.
        """
        tau = choose(streams.advantages > 0, self.tau_positive, self.tau_negative, like=ratio.detach())
        per_token = 4.0 / tau * torch.sigmoid(tau * (ratio - 1.0)) * streams.advantages
        return Surrogate(per_token=per_token, flags=torch.zeros_like(per_token, dtype=torch.int32))
