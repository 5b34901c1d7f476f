"""A critic's view of rows: what follows each step, and sums of temporal differences (the core of M12, M14, M22, M45).

A step is an action token or a turn. Behind the last step of a finished row nothing follows; a row that a limit cut is
censored, and the critic's value of the state behind it follows.
"""

from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs
from rollwright.algorithms.scans import backward_scan
from rollwright.algorithms.streams import value_of

__all__ = ["Truncation", "bootstrap_of_rows", "check_fraction", "next_values", "scan_within_rows"]

Truncation = Literal["bootstrap", "terminal"]
"""What follows a truncated row: the critic's `bootstrap` value, or nothing, as if it had finished."""


def bootstrap_of_rows(inputs: CreditInputs, truncation: Truncation) -> Tensor:
    """(R,) float64, the value that follows each row: 0 unless it was truncated and `truncation` is "bootstrap"."""
    if truncation not in ("bootstrap", "terminal"):
        raise ObjectiveError(f"truncation is {truncation!r}; it is 'bootstrap' or 'terminal'.")
    if truncation == "terminal":
        return inputs.rewards.new_zeros(len(inputs.rewards))
    return torch.where(inputs.is_truncated, value_of(inputs, "bootstrap").to(torch.float64), 0.0)


def next_values(values: Tensor, row_offsets: Tensor, behind: Tensor) -> Tensor:
    """The value of the step after each one.

    Args:
        values: (S,) float64 of all steps.
        row_offsets: (R + 1,) int64 into them.
        behind: (R,) float64, what follows the last step of each row.

    Returns:
        (S,) float64.
    """
    following = values.roll(-1)
    has_steps = row_offsets.diff() > 0
    following[row_offsets[1:][has_steps] - 1] = behind[has_steps]
    return following


def scan_within_rows(values: Tensor, decays: Tensor, row_offsets: Tensor) -> Tensor:
    """`backward_scan`, in which a value that is not finite spoils itself and what stands before it in its row only.

    Args:
        values: (S,) float64.
        decays: (S,) float64.
        row_offsets: (R + 1,) int64 into them.

    Returns:
        (S,) float64; NaN where a non-finite value entered the sum, which the loss masks and counts.
    """
    is_finite = values.isfinite() & decays.isfinite()
    if bool(is_finite.all()):
        return backward_scan(values, decays, row_offsets)
    sums = backward_scan(torch.where(is_finite, values, 0.0), torch.where(is_finite, decays, 0.0), row_offsets)
    num_spoiled = backward_scan((~is_finite).to(torch.float64), torch.ones_like(sums), row_offsets)
    return torch.where(num_spoiled > 0, torch.nan, sums)


def check_fraction(name: str, value: float) -> None:
    """Refuse a discount or decay outside [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ObjectiveError(f"{name} is {value}; it lies between 0 and 1.")
