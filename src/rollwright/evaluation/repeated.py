"""What several attempts at a task are worth: pass@k, pass^k, avg@n, votes, coverage and what sharpening left.

A task with fewer scored attempts than a measure needs says nothing to it: it is counted in `missing_tasks` and in no
mean.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np

from rollwright.evaluation.measured import Measured, mean_by_task, plain, undefined, with_interval
from rollwright.evaluation.outcomes import Baseline, Outcomes
from rollwright.evaluation.protocol import EvaluationProtocol
from rollwright.statistics import (
    Interval,
    avg_at_n,
    majority_at_k,
    pass_at_k,
    pass_hat_k,
    sharpening,
    sharpening_interval,
    sharpening_tax,
    sharpening_tax_intervals,
    task_curves,
)

__all__ = ["coverage", "repeated_attempts", "sharpened", "votes"]

_Counts = Mapping[str, tuple[int, int]]
_SEED = 0
"""Of the resampling; the same episodes give the same intervals."""


def repeated_attempts(
    protocol: EvaluationProtocol, outcomes: Outcomes, labels: Mapping[str, str]
) -> Iterator[Measured]:
    """pass@k, pass^k, the tasks missing from each, and avg@n of the tasks of which all n attempts were scored."""
    counts = outcomes.counts
    for k in protocol.measured_attempts:
        labeled = {**labels, "k": str(k)}
        yield _over_tasks(protocol, "pass_at_k", counts, lambda n, c, k=k: pass_at_k(n, c, k), labeled)
        if k > 1:
            yield _over_tasks(protocol, "pass_hat_k", counts, lambda n, c, k=k: pass_hat_k(n, c, k), labeled)
        missing = sum(n < k for n, _ in counts.values())
        yield plain("missing_tasks", float(missing), labeled, len(counts))
    samples = protocol.samples
    labeled = {**labels, "n": str(samples)}
    whole = {task: (n, c) for task, (n, c) in counts.items() if n == samples}
    yield _over_tasks(protocol, "avg_at_n", whole, avg_at_n, labeled)


def votes(
    protocol: EvaluationProtocol,
    outcomes: Outcomes,
    answers: Mapping[str, str | None],
    labels: Mapping[str, str],
) -> Iterator[Measured]:
    """maj@k: how often the answer that most of k attempts give is right; ties share the win.

    Answers are read canonically; an attempt without one casts no vote. An answer is right where an attempt that gave
    it succeeded; several such ones are the same answer to the verifier. A task with a success that shows no answer
    cannot be voted on and is missing.

    Args:
        protocol: its k and level.
        outcomes: of the attempts.
        answers: by trajectory; empty where the episodes have none, which measures nothing.
        labels: of the rows.
    """
    given: dict[str, list[tuple[str | None, bool]]] = {}
    for member, task, hit in zip(outcomes.scored, outcomes.tasks, outcomes.successes, strict=True):
        given.setdefault(task, []).append((answers.get(member.trajectory_id), hit))
    if not any(answer is not None for pairs in given.values() for answer, _ in pairs):
        return
    for k in protocol.measured_attempts:
        if k < 2:
            continue
        found = {task: _vote(pairs, k) for task, pairs in given.items()}
        values = {task: value for task, value in found.items() if value is not None}
        labeled = {**labels, "k": str(k)}
        yield mean_by_task(
            "maj_at_k", list(values.values()), list(values), level=protocol.level, labels=labeled, is_share=True
        )


def coverage(protocol: EvaluationProtocol, outcomes: Outcomes, labels: Mapping[str, str]) -> Iterator[Measured]:
    """cover@k, the tasks that k attempts are expected to solve, and cover@τ, the share solved at a rate of τ."""
    if protocol.samples < 2:
        return
    counts = outcomes.counts
    for k in protocol.measured_attempts:
        if k < 2:
            continue
        share = _over_tasks(protocol, "cover_at_k", counts, lambda n, c, k=k: pass_at_k(n, c, k), labels)
        yield _times(share, share.num_tasks, {**labels, "k": str(k)})
    rated = {task: c / n for task, (n, c) in counts.items() if n}
    for rate in protocol.measured_rates:
        reached = [float(found >= rate) for found in rated.values()]
        labeled = {**labels, "rate": f"{rate:g}"}
        yield mean_by_task("cover_at_rate", reached, list(rated), level=protocol.level, labels=labeled, is_share=True)


def sharpened(protocol: EvaluationProtocol, outcomes: Outcomes, baseline: Baseline | None) -> Iterator[Measured]:
    """What more attempts are still worth, A(K) and S(K), and the tax on it since an earlier checkpoint (M132).

    Args:
        protocol: K is its largest k.
        outcomes: of the attempts.
        baseline: the earlier checkpoint; None: there is none, or this is it.
    """
    most = max(protocol.measured_attempts)
    if most < 2:
        return
    counts = outcomes.counts
    labels = {"k": str(most)}
    curves = task_curves(list(counts.values()), most)
    if np.isnan(curves).any(axis=1).all():
        yield from (undefined(name, labels) for name in ("sharpening_area", "sharpening"))
        return
    whole = sharpening(curves)
    bounds = sharpening_interval(curves, seed=_SEED, level=protocol.level)
    num = whole.num_tasks
    yield with_interval("sharpening_area", whole.area, bounds.area, labels=labels, num_tasks=num)
    yield with_interval("sharpening", whole.normalized, bounds.normalized, labels=labels, num_tasks=num)
    if baseline is not None:
        yield from _taxed(protocol, counts, baseline, most)


def _taxed(protocol: EvaluationProtocol, counts: _Counts, baseline: Baseline, most: int) -> Iterator[Measured]:
    labels = {"k": str(most), "base": str(baseline.step)}
    shared = [task for task in counts if counts[task][0] >= most and baseline.counts.get(task, (0, 0))[0] >= most]
    if not shared:
        yield from (undefined(name, labels) for name in ("sharpening_tax_area", "sharpening_tax"))
        return
    before, after = (task_curves([found[task] for task in shared], most) for found in (baseline.counts, counts))
    tax = sharpening_tax(before, after)
    bounds = sharpening_tax_intervals(before, after, seed=_SEED, level=protocol.level)
    num = len(shared)
    yield with_interval("sharpening_tax_area", tax.area, bounds.area, labels=labels, num_tasks=num)
    # An interval of a tax that is itself undefined would be one of other resamples.
    normalized = None if tax.normalized is None else bounds.normalized
    yield with_interval("sharpening_tax", tax.normalized, normalized, labels=labels, num_tasks=num)


def _over_tasks(
    protocol: EvaluationProtocol,
    metric: str,
    counts: _Counts,
    estimate: Callable[[int, int], float | None],
    labels: Mapping[str, str],
) -> Measured:
    found = {task: estimate(n, c) for task, (n, c) in counts.items()}
    known = {task: value for task, value in found.items() if value is not None}
    return mean_by_task(metric, list(known.values()), list(known), level=protocol.level, labels=labels, is_share=True)


def _times(share: Measured, factor: int, labels: Mapping[str, str]) -> Measured:
    """A share of tasks as a number of tasks."""
    if share.value is None:
        return undefined(share.metric, labels)
    if share.low is None or share.high is None:
        return with_interval(share.metric, share.value * factor, None, labels=labels, num_tasks=factor)
    low, high = share.low * factor, share.high * factor
    bounds = Interval(low=low, high=high, level=0.0, method=share.method)
    return with_interval(share.metric, share.value * factor, bounds, labels=labels, num_tasks=factor)


def _vote(pairs: list[tuple[str | None, bool]], k: int) -> float | None:
    right = {answer for answer, hit in pairs if hit}
    if None in right:
        return None
    return majority_at_k([_RIGHT if answer in right else answer for answer, _ in pairs], _RIGHT, k)


_RIGHT = object()
"""Stands for the right answer, however it was written."""
