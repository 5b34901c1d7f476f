"""Take credit from flagged tokens without changing how much a batch is pushed (M30)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["SegmentFactors", "penalize_segments", "segment_factors"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFactors:
    """What clean tokens are multiplied with, so that flagged ones can be blamed."""

    alpha: float
    """Of clean tokens with a positive advantage, at least 1; flagged ones get 0."""
    beta: float
    """Of clean tokens with a negative advantage, at most 1; flagged ones get κ."""


def segment_factors(
    advantages: Tensor, is_flagged: Tensor, *, kappa: float, alpha_max: float, beta_min: float
) -> SegmentFactors:
    """α = min(α_max, 1 + H⁺/C⁺) and β = max(β_min, 1 − (κ − 1)·H⁻/C⁻) of a batch (MiMo-V2.6 eq. 5).

    H and C are sums of |A| over its flagged and its clean tokens of that sign, over all ranks.

    Args:
        advantages: (N,) float64 of all trained tokens of the batch; what is not finite counts nowhere.
        is_flagged: (N,) bool.
        kappa: κ > 1.
        alpha_max: at least 1; inf for no cap.
        beta_min: in [0, 1].

    Returns:
        The factors; 1 where no clean token has that sign.
    """
    if not (kappa > 1 and alpha_max >= 1 and 0 <= beta_min <= 1):
        raise ObjectiveError(
            f"kappa is {kappa}, alpha_max {alpha_max} and beta_min {beta_min}; kappa is above 1, alpha_max at least 1 "
            "and beta_min between 0 and 1."
        )
    finite = torch.where(advantages.isfinite(), advantages, 0.0)
    gains, losses = finite.clamp(min=0.0), -finite.clamp(max=0.0)
    flagged_gain, clean_gain = float(gains[is_flagged].sum()), float(gains[~is_flagged].sum())
    flagged_loss, clean_loss = float(losses[is_flagged].sum()), float(losses[~is_flagged].sum())
    return SegmentFactors(
        alpha=min(alpha_max, 1.0 + flagged_gain / clean_gain) if clean_gain else 1.0,
        beta=max(beta_min, 1.0 - (kappa - 1.0) * flagged_loss / clean_loss) if clean_loss else 1.0,
    )


def penalize_segments(
    inputs: CreditInputs,
    *,
    credit: CreditFn,
    kappa: float | None = None,
    alpha_max: float | None = None,
    beta_min: float | None = None,
) -> Credit:
    """Flagged tokens gain nothing from a success and lose κ-fold from a failure; clean ones balance (MiMo-V2.6 eq. 5).

    Flags say broken markup, an unknown tool, bad arguments. While no cap is active, the sum of |A| over the batch is
    what it was, for each sign. It comes after length penalties and centering: wrap them.

    Args:
        inputs: rows with `is_flagged` (N,), 1 on flagged tokens.
        credit: what comes before.
        kappa: κ > 1, blame of a flagged token in a failing row.
        alpha_max: cap of α.
        beta_min: floor of β.

    Returns:
        (N,) float64 in the units of `credit`; no flag changes nothing.
    """
    blame = chosen("kappa", kappa, undisclosed_by="MiMo-V2.6")
    highest = chosen("alpha_max", alpha_max, undisclosed_by="MiMo-V2.6")
    lowest = chosen("beta_min", beta_min, undisclosed_by="MiMo-V2.6")
    given = credit(inputs)
    is_flagged = value_of(inputs, "is_flagged") == 1
    factors = segment_factors(given.advantages, is_flagged, kappa=blame, alpha_max=highest, beta_min=lowest)
    gained = torch.where(is_flagged, 0.0, factors.alpha * given.advantages)
    lost = given.advantages * torch.where(is_flagged, blame, factors.beta)
    return replace(given, advantages=torch.where(given.advantages > 0, gained, lost))
