"""Bounds of a ratio: a number that stands, or one that a controller moves between updates."""

from rollwright.algorithms.controllers import coefficient_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Controller

__all__ = ["Bound", "check_band"]

Bound = float | Controller
"""Read by `coefficient_of` at each call, so that a controller's bound is that of the update."""


def check_band(what: str, low: float, high: Bound) -> None:
    """Refuse bounds that do not hold 1, the ratio of an unchanged policy.

    Args:
        what: whose bounds, for the error.
        low: lower bound of the ratio itself, at least 0.
        high: upper bound of the ratio itself; of a controller what it is now.
    """
    top = coefficient_of(high)
    if not 0.0 <= low <= 1.0 <= top:
        raise ObjectiveError(
            f"{what} has bounds [{low}, {top}]; they are bounds of the ratio itself and hold 1, such as [0.8, 1.2]."
        )
