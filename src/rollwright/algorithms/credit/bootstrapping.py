"""A critic's view of rows: what follows each step (for M12, M14, M22 and M45).

A step is an action token or a turn. Behind the last step of a finished row nothing follows; a row that a limit cut is
censored, and the critic's value of the state behind it follows.
"""

from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["Truncation", "bootstrap_of_rows", "check_fraction", "next_values"]

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


def check_fraction(name: str, value: float) -> None:
    """Refuse a discount or decay outside [0, 1]."""
    if not 0.0 <= value <= 1.0:
        raise ObjectiveError(f"{name} is {value}; it lies between 0 and 1.")
