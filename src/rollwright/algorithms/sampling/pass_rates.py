"""What a task's measured pass rate decides: whether it is kept, how often it is drawn, how many attempts it gets."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.errors import ObjectiveError

__all__ = ["attempts_after_probe", "gaussian_weights", "low_likelihood_weights", "pass_rate_within"]

_UNSEEN = 0.5
"""Pass rate of a task that was never measured (ours)."""


def pass_rate_within(successes: ArrayLike, attempts: ArrayLike, *, low: float, high: float) -> NDArray[np.bool_]:
    """Whether low < c/n < high, strictly on both sides: the tasks that are kept (M95).

    Args:
        successes: c, any shape.
        attempts: n, 1 or more; broadcast against c. Measured for this stage and this starting policy.
        low: of the pass rate; 0 drops what was never solved.
        high: of the pass rate; 1 drops what was always solved.

    Returns:
        bool, True where the task is kept.
    """
    rate = _rate(successes, attempts)
    if not low < high:
        raise ObjectiveError(f"the band is {low} to {high}; low must be below high.")
    return (low < rate) & (rate < high)


def attempts_after_probe(
    hits: ArrayLike, *, probe: int, full: int, low: float, high: float
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether a task goes on after a probe, and how many attempts it then has in all (M97).

    A bound is inside (E6). The probe decides and stays in the group; it conditions the group's mean.

    Args:
        hits: (tasks,) successes among the probe's attempts.
        probe: attempts of the probe.
        full: attempts of a group that goes on.
        low: least pass rate of the probe.
        high: largest pass rate of the probe.

    Returns:
        (tasks,) bool and (tasks,) int64.
    """
    if not 1 <= probe <= full:
        raise ObjectiveError(f"the probe has {probe} attempts of {full}; it has at least 1 and at most all.")
    rate = _rate(hits, probe)
    goes_on = (low <= rate) & (rate <= high)
    return goes_on, np.where(goes_on, full, probe)


def gaussian_weights(
    pass_rates: ArrayLike, *, center: float | None = None, width: float | None = None
) -> NDArray[np.float64]:
    """∝ exp(−(p − μ)²/2σ²): a curriculum that moves μ from easy to hard tasks (M96).

    Args:
        pass_rates: (tasks,) of one domain, so that the ratio of domains stays; NaN where never measured, read as 0.5.
        center: μ of this stage.
        width: σ, above 0.

    Returns:
        (tasks,) float64 chances of the next draw, summing to 1; none for no task.
    """
    middle = chosen("center", center, undisclosed_by="Llama-Nemotron (arXiv:2505.00949)")
    spread = chosen("width", width, undisclosed_by="Llama-Nemotron (arXiv:2505.00949)")
    if spread <= 0:
        raise ObjectiveError(f"width is {spread}; a curriculum needs a width above 0.")
    exponent = -((_known(pass_rates) - middle) ** 2) / (2.0 * spread**2)
    # The largest becomes 1, so that a far center leaves a distribution and not 0/0.
    weights = np.exp(exponent - exponent.max(initial=-np.inf)) if exponent.size else exponent
    return weights / weights.sum()


def low_likelihood_weights(pass_rates: ArrayLike, *, exponent: float | None = None) -> NDArray[np.float64]:
    """∝ (1 − p)^a: tasks that the base model rarely solves are drawn more often (form ours).

    Args:
        pass_rates: (tasks,) of the base model; NaN where never measured, read as 0.5.
        exponent: a, above 0; larger is steeper.

    Returns:
        (tasks,) float64 chances of the next draw, summing to 1; level where all are always solved.
    """
    steepness = chosen("exponent", exponent, undisclosed_by="the abstract on negative interference in RLVR")
    if steepness <= 0:
        raise ObjectiveError(f"exponent is {steepness}; above 0, or the weights would not fall with the pass rate.")
    weights = (1.0 - _known(pass_rates)) ** steepness
    return weights / weights.sum() if weights.sum() > 0 else np.full(weights.shape, 1.0 / max(weights.size, 1))


def _rate(successes: ArrayLike, attempts: ArrayLike) -> NDArray[np.float64]:
    c, n = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(attempts, np.float64))
    if not ((n >= 1) & (c >= 0) & (c <= n)).all():
        raise ObjectiveError(
            f"{c.tolist()} successes in {n.tolist()} attempts; there is at least 1 attempt, and "
            "successes lie between 0 and the attempts."
        )
    return c / n


def _known(pass_rates: ArrayLike) -> NDArray[np.float64]:
    rates = np.asarray(pass_rates, np.float64)
    known = np.where(np.isnan(rates), _UNSEEN, rates)
    if not ((known >= 0) & (known <= 1)).all():
        raise ObjectiveError(f"pass rates are {rates.tolist()}; they lie between 0 and 1, NaN where never measured.")
    return known
