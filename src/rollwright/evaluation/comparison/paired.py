"""Two policies on the same tasks under one protocol: the difference of each measure, task by task.

Where an arm has several runs, each is paired with one of the other arm. Runs that were measured on the same tasks are
crossed with them, runs with tasks of their own nested; Student's interval is then that of the runs, not of the tasks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.evidence import StoredEvaluation
from rollwright.statistics import (
    Interval,
    SharpeningTax,
    TaxIntervals,
    compare_paired,
    crossed_bootstrap_interval,
    mcnemar_exact,
    nested_bootstrap_interval,
    paired_bootstrap_interval,
    paired_t_interval,
    pass_at_k,
    sharpening_tax,
    sharpening_tax_intervals,
    task_curves,
    wilson_interval,
)

__all__ = ["Difference", "Pair", "Tax", "differences", "tax_of"]

_SEED = 0
"""Of the resampling: the same runs give the same intervals."""
_Scores = Mapping[str, float]
"""Task to its score; a task without an estimate is not in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One run of the reference and one of the arm beside it, at the checkpoints that are compared."""

    reference: StoredEvaluation
    other: StoredEvaluation


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One measure of an arm minus that of the reference, on the tasks that both have."""

    metric: str
    labels: Mapping[str, str]
    reference: float | None
    other: float | None
    """Both on the shared tasks; None: no task is shared."""
    mean: float | None
    standard_error: float | None
    t: float | None
    p_value: float | None
    by_student: Interval | None
    """Over tasks, or over pairs of runs where there are several."""
    by_bootstrap: Interval | None
    num_tasks: int
    num_missing: int
    """Tasks that one of both has no estimate of; they are in no mean."""
    num_pairs: int
    mcnemar_p: float | None = None
    """Where each task had one attempt: exact, of the tasks that only one of both solved."""
    only_reference: int | None = None
    only_other: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Tax:
    """What the arm's further attempts are worth less than the reference's."""

    k: int
    tax: SharpeningTax
    intervals: TaxIntervals


def differences(pairs: Sequence[Pair], *, level: float) -> tuple[Difference, ...]:
    """Success, reward, and pass@k as far as every task's attempts go.

    Args:
        pairs: at least one; both of a pair under one digest.
        level: of the intervals.
    """
    found = [
        _difference(pairs, "success", {}, _success, level),
        _difference(pairs, "reward", {}, _reward, level),
    ]
    for k in _attempts(pairs):
        if k > 1:
            found.append(_difference(pairs, "pass_at_k", {"k": str(k)}, _pass_at(k), level))
    return tuple(found)


def tax_of(pair: Pair, *, level: float) -> Tax | None:
    """The sharpening tax of one pair at the largest k that both were sampled for; None below two attempts.

    Args:
        pair: under one digest.
        level: of the intervals.
    """
    counts, others = pair.reference.counts, pair.other.counts
    shared = [task for task in counts if task in others]
    most = min((min(counts[task][0], others[task][0]) for task in shared), default=0)
    if most < 2:
        most = max((min(counts[task][0], others[task][0]) for task in shared), default=0)
    shared = [task for task in shared if min(counts[task][0], others[task][0]) >= most]
    if most < 2:
        return None
    before, after = (task_curves([one[task] for task in shared], most) for one in (counts, others))
    return Tax(
        k=most,
        tax=sharpening_tax(before, after),
        intervals=sharpening_tax_intervals(before, after, seed=_SEED, level=level),
    )


def _difference(
    pairs: Sequence[Pair],
    metric: str,
    labels: Mapping[str, str],
    score: Callable[[StoredEvaluation], _Scores],
    level: float,
) -> Difference:
    scores = [(score(pair.reference), score(pair.other)) for pair in pairs]
    shared = [sorted(one.keys() & other.keys()) for one, other in scores]
    tasks = [{*pair.reference.counts, *pair.other.counts} for pair in pairs]
    deltas = [
        np.array([other[task] - one[task] for task in both], dtype=np.float64)
        for (one, other), both in zip(scores, shared, strict=True)
    ]
    is_measured = all(len(one) for one in deltas)
    units = deltas[0] if len(deltas) == 1 else np.array([one.mean() for one in deltas if len(one)])
    overall = compare_paired(units)
    only_reference, only_other = _discordant(pairs, metric)
    return Difference(
        metric=metric,
        labels=labels,
        reference=_mean([_mean([one[t] for t in both]) for (one, _), both in zip(scores, shared, strict=True)]),
        other=_mean([_mean([one[t] for t in both]) for (_, one), both in zip(scores, shared, strict=True)]),
        mean=overall.mean if is_measured else None,
        standard_error=overall.standard_error,
        t=overall.t,
        p_value=overall.p_value,
        by_student=paired_t_interval(units, level=level),
        by_bootstrap=_bootstrap(deltas, shared, level, metric) if is_measured else None,
        num_tasks=len(set[str]().union(*shared)),
        num_missing=sum(len(every) - len(both) for every, both in zip(tasks, shared, strict=True)),
        num_pairs=len(pairs),
        mcnemar_p=None if only_reference is None or only_other is None else mcnemar_exact(only_reference, only_other),
        only_reference=only_reference,
        only_other=only_other,
    )


def _bootstrap(
    deltas: Sequence[NDArray[np.float64]], shared: Sequence[list[str]], level: float, metric: str
) -> Interval | None:
    """Over tasks, or over runs and tasks; where no task differs, what the number of tasks still allows a share."""
    if not any(one.any() for one in deltas):
        if metric == "reward":
            return None
        high = wilson_interval(0, min(len(one) for one in deltas), level=level).high
        return Interval(low=-high, high=high, level=level, method="wilson")
    if len(deltas) == 1:
        return paired_bootstrap_interval(deltas[0], seed=_SEED, resamples=4000, level=level)
    if all(one == shared[0] for one in shared):
        return crossed_bootstrap_interval(np.array(deltas), seed=_SEED, resamples=4000, level=level)
    return nested_bootstrap_interval(deltas, seed=_SEED, resamples=4000, level=level)


def _discordant(pairs: Sequence[Pair], metric: str) -> tuple[int | None, int | None]:
    """Tasks that only one of both solved, where each task had one attempt in either."""
    if metric != "success" or len(pairs) != 1:
        return None, None
    one, other = pairs[0].reference.counts, pairs[0].other.counts
    shared = [task for task in one if task in other and one[task][0] and other[task][0]]
    if not shared or any(one[task][0] != 1 or other[task][0] != 1 for task in shared):
        return None, None
    return (
        sum(one[task][1] > other[task][1] for task in shared),
        sum(one[task][1] < other[task][1] for task in shared),
    )


def _attempts(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """The k that the rows of every evaluation have in common."""
    kept = [
        {int(row.labels["k"]) for row in one.rows if row.metric == "pass_at_k" and set(row.labels) == {"k"}}
        for pair in pairs
        for one in (pair.reference, pair.other)
    ]
    return tuple(sorted(set[int].intersection(*kept)))


def _success(evaluation: StoredEvaluation) -> _Scores:
    return {task: c / n for task, (n, c) in evaluation.counts.items() if n}


def _reward(evaluation: StoredEvaluation) -> _Scores:
    rewards: dict[str, list[float]] = {}
    for attempt in evaluation.attempts:
        if attempt.reward is not None:
            rewards.setdefault(attempt.task_id, []).append(attempt.reward)
    return {task: sum(found) / len(found) for task, found in rewards.items()}


def _pass_at(k: int) -> Callable[[StoredEvaluation], _Scores]:
    def score(evaluation: StoredEvaluation) -> _Scores:
        found = {task: pass_at_k(n, c, k) for task, (n, c) in evaluation.counts.items()}
        return {task: value for task, value in found.items() if value is not None}

    return score


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
