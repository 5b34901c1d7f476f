"""What more attempts are still worth, and what post-training took of it: the sharpening tax (M132).

With P(k) the mean of pass@k over tasks, A(K) = Σ_{k<K} (P(K) − P(k)) and S(K) = A(K) / ((K − 1)·(1 − P(1))). Both are
made from the curve of the whole set: the mean of each task's own S is another number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.statistics.coverage import pass_at_k, pass_at_k_of_rate
from rollwright.statistics.errors import StatisticsError
from rollwright.statistics.proportions import Interval
from rollwright.statistics.resampling import check_resamples, percentile_interval

__all__ = [
    "Sharpening",
    "SharpeningTax",
    "TaxIntervals",
    "sharpening",
    "sharpening_interval",
    "sharpening_tax",
    "sharpening_tax_intervals",
    "task_curves",
    "task_curves_of_rates",
]

_NO_HEADROOM = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharpening:
    """The remaining value of more attempts of one policy."""

    curve: NDArray[np.float64]
    """(K,) mean over tasks of pass@1 to pass@K."""
    area: float
    """A(K), in attempts times success."""
    normalized: float | None
    """S(K) in [0, 1]; None where pass@1 is 1: there is no headroom to divide by."""
    num_tasks: int
    num_missing: int
    """Tasks with fewer than K scored attempts; they are in no mean."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharpeningTax:
    """Base minus post-trained policy on the tasks that both have; positive: more attempts are worth less now."""

    base: Sharpening
    post: Sharpening
    area: float
    normalized: float | None
    """None where either policy has no headroom."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaxIntervals:
    """Task bootstrap of both forms, of one policy or, paired, of the tax between two."""

    area: Interval | None
    """None below two tasks."""
    normalized: Interval | None
    """Over the resamples in which both policies have headroom; None where none has."""
    num_undefined: int
    """Resamples without headroom."""


def task_curves(counts: Sequence[tuple[int, int]], max_k: int) -> NDArray[np.float64]:
    """Unbiased pass@1 to pass@K of every task.

    Args:
        counts: (attempts n, successes c) of each task.
        max_k: K, at least 2.

    Returns:
        (tasks, K) float64; a row of NaN for a task with n < K, which is missing.
    """
    _refuse_short(max_k)
    known = {
        pair: [np.nan] * max_k
        if pair[0] < max_k
        else [value for k in range(1, max_k + 1) if (value := pass_at_k(*pair, k)) is not None]
        for pair in {(int(attempts), int(successes)) for attempts, successes in counts}
    }
    return np.array([known[int(n), int(c)] for n, c in counts], dtype=np.float64).reshape(len(counts), max_k)


def task_curves_of_rates(rates: Sequence[float], max_k: int) -> NDArray[np.float64]:
    """pass@1 to pass@K of tasks whose success probability is known; (tasks, K) float64."""
    _refuse_short(max_k)
    rows = [[pass_at_k_of_rate(rate, k) for k in range(1, max_k + 1)] for rate in rates]
    return np.array(rows, dtype=np.float64).reshape(len(rates), max_k)


def sharpening(curves: NDArray[np.float64]) -> Sharpening:
    """The dataset curve with its A and S.

    Args:
        curves: (tasks, K) from `task_curves`; rows of NaN are missing.

    Returns:
        Both numbers; a perfect pass@1 leaves A = 0 and no S.
    """
    _refuse_short(curves.shape[1])
    is_known = ~np.isnan(curves).any(axis=1)
    if not is_known.any():
        raise StatisticsError(f"none of {len(curves)} tasks has {curves.shape[1]} scored attempts; choose a smaller K.")
    curve = curves[is_known].mean(axis=0)
    areas, normalized = _area(curve[None])
    return Sharpening(
        curve=curve,
        area=float(areas[0]),
        normalized=None if np.isnan(normalized[0]) else float(normalized[0]),
        num_tasks=int(is_known.sum()),
        num_missing=int((~is_known).sum()),
    )


def sharpening_interval(
    curves: NDArray[np.float64], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> TaxIntervals:
    """Percentile bootstrap over tasks of A and S of one policy.

    Args:
        curves: (tasks, K) from `task_curves`; rows of NaN are missing.
        seed: of the resampling.
        resamples: at least 1,000.
        level: confidence.

    Returns:
        An interval for either form; None below two tasks.
    """
    check_resamples(resamples)
    known = curves[~np.isnan(curves).any(axis=1)]
    if len(known) < 2:
        return TaxIntervals(area=None, normalized=None, num_undefined=0)
    drawn = np.random.default_rng(seed).multinomial(len(known), np.full(len(known), 1.0 / len(known)), size=resamples)
    area, normalized = _area(drawn @ known / len(known))
    defined = normalized[~np.isnan(normalized)]
    return TaxIntervals(
        area=percentile_interval(area, level=level, method="task_bootstrap"),
        normalized=percentile_interval(defined, level=level, method="task_bootstrap") if len(defined) else None,
        num_undefined=resamples - len(defined),
    )


def sharpening_tax(base: NDArray[np.float64], post: NDArray[np.float64]) -> SharpeningTax:
    """What post-training took of the value of more attempts, on the tasks that both policies have.

    Args:
        base: (tasks, K) curves before, from `task_curves`.
        post: (tasks, K) curves after, of the same tasks in the same order, under the same protocol.

    Returns:
        The difference; a task that is missing in one policy is missing in both.
    """
    before, after = (sharpening(curves) for curves in _paired(base, post))
    known = [one.normalized for one in (before, after) if one.normalized is not None]
    return SharpeningTax(
        base=before,
        post=after,
        area=before.area - after.area,
        normalized=known[0] - known[1] if len(known) == 2 else None,
    )


def sharpening_tax_intervals(
    base: NDArray[np.float64], post: NDArray[np.float64], *, seed: int, resamples: int = 1000, level: float = 0.95
) -> TaxIntervals:
    """Percentile bootstrap of the tax over tasks, the same tasks drawn for both policies.

    Args:
        base: (tasks, K) curves before.
        post: (tasks, K) curves after, of the same tasks.
        seed: of the resampling.
        resamples: at least 1,000.
        level: confidence.

    Returns:
        An interval for either form; None below two tasks.
    """
    check_resamples(resamples)
    before, after = (curves[~np.isnan(curves).any(axis=1)] for curves in _paired(base, post))
    num_tasks = len(before)
    if num_tasks < 2:
        return TaxIntervals(area=None, normalized=None, num_undefined=0)
    drawn = np.random.default_rng(seed).multinomial(num_tasks, np.full(num_tasks, 1.0 / num_tasks), size=resamples)
    (area, normal), (post_area, post_normal) = (_area(drawn @ curves / num_tasks) for curves in (before, after))
    normalized = normal - post_normal
    defined = normalized[~np.isnan(normalized)]
    return TaxIntervals(
        area=percentile_interval(area - post_area, level=level, method="paired_task_bootstrap"),
        normalized=percentile_interval(defined, level=level, method="paired_task_bootstrap") if len(defined) else None,
        num_undefined=resamples - len(defined),
    )


def _area(curves: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A and S of (n, K) dataset curves; S is NaN without headroom."""
    areas = (curves[:, -1:] - curves[:, :-1]).sum(axis=1)
    headroom = 1.0 - curves[:, 0]
    has_headroom = headroom > _NO_HEADROOM
    below = np.where(has_headroom, (curves.shape[1] - 1) * headroom, np.nan)
    return areas, areas / below


def _paired(base: NDArray[np.float64], post: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if base.shape != post.shape:
        raise StatisticsError(
            f"the base has curves of shape {base.shape} and the post-trained policy of {post.shape}; a paired "
            "comparison needs the same tasks and the same K."
        )
    is_missing = np.isnan(base + post).any(axis=1, keepdims=True)
    return np.where(is_missing, np.nan, base), np.where(is_missing, np.nan, post)


def _refuse_short(max_k: int) -> None:
    if max_k < 2:
        raise StatisticsError(f"K is {max_k}; a curve of the value of more attempts needs at least 2.")
