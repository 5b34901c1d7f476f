"""A penalty on passing answers that are long beside their passing siblings (M89)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import places_of
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.regularizers.pass_rate_penalty import pass_rates
from rollwright.algorithms.regularizers.quantiles import quantiles_within

__all__ = ["QuantileGate", "gated_quantile_penalty", "passing_length", "quantile_penalties"]

_WHO = "the report on MiMo-V2.6"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileGate:
    """The constants of the penalty; the report names every one of them and gives none."""

    penalty: float | None = None
    """X, verifier units: what the longest passing answers lose."""
    percentile: float | None = None
    """B in [0, 100]: ℓ* is this percentile of the group's passing lengths."""
    slack: float | None = None
    """δ ≥ 0: how far above ℓ*, relative to it, a length costs nothing."""
    saturation: float | None = None
    """s > δ: from here on the penalty is whole."""
    power: float | None = None
    """γ ≥ 1 of the ramp."""
    min_pass_rate: float | None = None
    """A_min: groups at or below it are left alone."""
    success: float = 1.0
    """Reward from which a row passes, verifier units."""

    def __post_init__(self) -> None:
        """Refuse a constant that was left out, and ramps that do not rise."""
        slack, saturation = chosen("slack", self.slack, undisclosed_by=_WHO), self.saturation
        saturation = chosen("saturation", saturation, undisclosed_by=_WHO)
        power = chosen("power", self.power, undisclosed_by=_WHO)
        chosen("penalty", self.penalty, undisclosed_by=_WHO)
        chosen("percentile", self.percentile, undisclosed_by=_WHO)
        chosen("min_pass_rate", self.min_pass_rate, undisclosed_by=_WHO)
        if not (slack >= 0 and saturation > slack and power >= 1):
            raise ObjectiveError(
                f"the gated penalty has slack={slack}, saturation={saturation}, power={power}; slack is at least 0, "
                "saturation above slack, power at least 1."
            )


def gated_quantile_penalty(inputs: CreditInputs, *, credit: CreditFn, gate: QuantileGate) -> Credit:
    """R −= X·clip((ℓ/ℓ* − 1 − δ)/(s − δ), 0, 1)^γ in passing rows of groups that pass often enough; then credit.

    Args:
        inputs: rows of whole groups; ℓ counts action tokens.
        credit: the estimator that follows.
        gate: the constants.

    Returns:
        The estimator's credit; a group without a passing row is left alone.
    """
    penalties = quantile_penalties(inputs.row_offsets.diff(), inputs, gate)
    return credit(replace(inputs, rewards=inputs.rewards - penalties))


def quantile_penalties(lengths: Tensor, inputs: CreditInputs, gate: QuantileGate) -> Tensor:
    """(R,) float64 in [0, X]: what each row's reward loses, for (R,) `lengths` in tokens."""
    slack = chosen("slack", gate.slack, undisclosed_by=_WHO)
    saturation = chosen("saturation", gate.saturation, undisclosed_by=_WHO)
    reference = passing_length(lengths, inputs, gate)
    excess = lengths.to(torch.float64) / reference.clamp(min=1.0) - 1.0 - slack
    ramp = (excess / (saturation - slack)).clamp(min=0.0, max=1.0)
    shaped = ramp.pow(chosen("power", gate.power, undisclosed_by=_WHO))
    is_open = pass_rates(inputs, success=gate.success) > chosen(
        "min_pass_rate", gate.min_pass_rate, undisclosed_by=_WHO
    )
    is_penalized = is_open & (inputs.rewards >= gate.success)
    return torch.where(is_penalized, chosen("penalty", gate.penalty, undisclosed_by=_WHO) * shaped, 0.0)


def passing_length(lengths: Tensor, inputs: CreditInputs, gate: QuantileGate) -> Tensor:
    """(R,) float64 ℓ*: the percentile of the passing lengths of the row's group; 0 where none passes."""
    return quantiles_within(
        lengths.to(torch.float64),
        places_of(inputs.group_index),
        inputs.rewards >= gate.success,
        percentile=chosen("percentile", gate.percentile, undisclosed_by=_WHO),
    )
