"""Chances over independent attempts that succeed with one probability: any success, and contrast in a group."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["chance_of_any", "chance_of_contrast", "expected_groups", "expected_successes"]


def chance_of_any(chance: ArrayLike, attempts: ArrayLike) -> NDArray[np.float64]:
    """1 − (1 − p)^K: at least one of K independent attempts succeeds, or at least one of K rows is unfinished.

    Args:
        chance: p in [0, 1], any shape.
        attempts: K, 0 or more; broadcast against p.

    Returns:
        float64; exact also where p is tiny, 0 for no attempt (M99, M102).
    """
    p, count = _chances(chance), _counts(attempts)
    with np.errstate(divide="ignore", invalid="ignore"):
        missed = np.where(count == 0, 0.0, count * np.log1p(-p))
    return -np.expm1(missed)


def expected_successes(chance: ArrayLike, attempts: ArrayLike) -> NDArray[np.float64]:
    """K·p: successes among K attempts; near the chance of any only while it is far below 1 (M102)."""
    return _counts(attempts) * _chances(chance)


def chance_of_contrast(chance: ArrayLike, group_size: ArrayLike) -> NDArray[np.float64]:
    """1 − p^G − (1 − p)^G: a group of G right-or-wrong attempts is not all of one kind (arXiv:2503.14476).

    Args:
        chance: p in [0, 1], any shape.
        group_size: G, 1 or more; broadcast against p.

    Returns:
        float64; 0 at p of 0 or 1 and for a group of one (M94).
    """
    p, size = _chances(chance), _counts(group_size)
    if (size < 1).any():
        raise ObjectiveError(f"group_size is {size.tolist()}; a group has 1 attempt or more.")
    return np.maximum(chance_of_any(p, size) - p**size, 0.0)


def expected_groups(wanted: float, chance: ArrayLike, group_size: ArrayLike) -> NDArray[np.float64]:
    """Groups to sample until `wanted` of them have contrast, on average; infinite where none ever has (M94)."""
    with np.errstate(divide="ignore"):
        return wanted / chance_of_contrast(chance, group_size)


def _chances(given: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(given, np.float64)
    if not ((values >= 0) & (values <= 1)).all():
        raise ObjectiveError(f"a chance is {values.tolist()}; chances lie between 0 and 1.")
    return values


def _counts(given: ArrayLike) -> NDArray[np.float64]:
    values = np.asarray(given, np.float64)
    if not ((values >= 0) & (values == np.floor(values))).all():
        raise ObjectiveError(f"a number of attempts is {values.tolist()}; counts are whole and 0 or more.")
    return values
