"""Success over several attempts: pass@k, pass^k and avg@n of a task, and their means over tasks (M125 to M127)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rollwright.statistics.errors import StatisticsError

__all__ = ["TaskMean", "avg_at_n", "mean_over_tasks", "pass_at_k", "pass_at_k_of_rate", "pass_hat_k"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskMean:
    """A mean over the tasks on which an estimate exists."""

    value: float | None
    """None: no task has an estimate."""
    num_tasks: int
    num_missing: int
    """Tasks without an estimate; they are never averaged in."""


def pass_at_k(attempts: int, successes: int, k: int) -> float | None:
    """Chance that at least one of k attempts succeeds, unbiased: 1 − C(n−c, k)/C(n, k) (arXiv:2107.03374).

    Args:
        attempts: n, scored attempts at the task.
        successes: c.
        k: attempts that a user would make.

    Returns:
        In [0, 1]; None where n < k, which no sample of n can say.
    """
    _check(attempts, successes, k)
    if attempts < k:
        return None
    # A product of k factors would round; the ratio of the two exact integers is rounded once.
    return 1.0 - math.comb(attempts - successes, k) / math.comb(attempts, k)


def pass_at_k_of_rate(rate: float, k: int) -> float:
    """1 − (1 − p)^k, where the success probability is known and attempts are independent.

    Never with an estimated rate: the mean over samples of 1 − (1 − c/n)^k is below `pass_at_k`.

    Args:
        rate: p in [0, 1].
        k: attempts that a user would make.

    Returns:
        In [0, 1].
    """
    if not 0.0 <= rate <= 1.0 or k < 1:
        raise StatisticsError(f"success rate {rate} with k = {k}; a rate lies in [0, 1], and k is at least 1.")
    return 1.0 if rate == 1.0 else -math.expm1(k * math.log1p(-rate))


def pass_hat_k(attempts: int, successes: int, k: int) -> float | None:
    """Chance that all of k attempts succeed, unbiased: C(c, k)/C(n, k).

    Args:
        attempts: n, scored attempts at the task.
        successes: c.
        k: repeated uses that must all succeed.

    Returns:
        In [0, 1]; None where n < k.
    """
    _check(attempts, successes, k)
    return None if attempts < k else math.comb(successes, k) / math.comb(attempts, k)


def avg_at_n(attempts: int, successes: int) -> float | None:
    """Share of attempts that succeed, c/n: a low-variance pass@1, not coverage; None without attempts."""
    _check(attempts, successes, 1)
    return successes / attempts if attempts else None


def mean_over_tasks(estimates: Sequence[float | None]) -> TaskMean:
    """Mean of the tasks' estimates; tasks without one are counted as missing.

    Args:
        estimates: one a task, None where the estimator is undefined.

    Returns:
        The mean, and on how many tasks it stands.
    """
    known = [value for value in estimates if value is not None]
    return TaskMean(
        value=math.fsum(known) / len(known) if known else None,
        num_tasks=len(known),
        num_missing=len(estimates) - len(known),
    )


def _check(attempts: int, successes: int, k: int) -> None:
    if not 0 <= successes <= attempts or k < 1:
        raise StatisticsError(
            f"{successes} successes in {attempts} attempts with k = {k}; successes lie between 0 and the attempts, "
            "and k is at least 1."
        )
