"""What became of what was sampled: cut, tried again, rejected, cancelled; and how hard its prompts were."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.batches.buckets import LENGTH_NAMES, RATE_NAMES, length_places, rate_places
from rollwright.record import Group, LedgerRow, ScoredTrajectory
from rollwright.rollout.parking import REPLAYED_OTHERWISE
from rollwright.runtime.episode_strata import group_rates, rewards_of

__all__ = ["MOST_TASKS", "flow_metrics"]

MOST_TASKS: Final = 8
"""Of the tasks whose attempts were rejected most, in a step; the table `ledger` has them all."""
_AGES: Final = frozenset({"lag", "straggler"})
"""Rules that end an episode for its age."""


def flow_metrics(
    groups: Sequence[Group],
    others: Sequence[ScoredTrajectory],
    ledger: Sequence[LedgerRow],
    *,
    success_at: float,
) -> Iterator[Diagnostic]:
    """The numbers of a step's attempts, trained or not.

    Args:
        groups: of the batch.
        others: every other attempt that ended by this step.
        ledger: changes of slots in this step.
        success_at: reward from which an episode is right, verifier units.
    """
    members = [m for group in groups for m in group.members]
    attempts = [*members, *others]
    yield from _by_source("data/truncated", attempts, [m.trajectory.terminal_reason.is_truncated for m in attempts])
    yield from _by_source("data/retried", attempts, [m.trajectory.lineage == "retry_of" for m in attempts])
    yield from _rejected(members, others, ledger)
    yield from _groups(groups, ledger)
    yield from _difficulty(attempts, success_at, {"when": "before_filter"})
    yield from _difficulty(members, success_at, {"when": "trained"})
    broken = sum(m.trajectory.failure_class == "infrastructure" for m in attempts)
    resumed = [m.trajectory for m in attempts if m.trajectory.lineage == "resumed_from"]
    astray = sum(REPLAYED_OTHERWISE in (one.failure_cause or "") for one in resumed)
    yield _share("env/replay_fail", astray, len(resumed), {})
    yield _share("env/crash", broken, len(attempts), {})


def _by_source(name: str, attempts: Sequence[ScoredTrajectory], where: Sequence[bool]) -> Iterator[Diagnostic]:
    counts: dict[str, list[int]] = {}
    for attempt, is_counted in zip(attempts, where, strict=True):
        of_source = counts.setdefault(attempt.trajectory.task.source, [0, 0])
        of_source[0] += is_counted
        of_source[1] += 1
    for source, (count, total) in sorted(counts.items()):
        yield Diagnostic(name=name, value=float(count), unit="count", num_items=total, labels={"source": source})


def _rejected(
    members: Sequence[ScoredTrajectory], others: Sequence[ScoredTrajectory], ledger: Sequence[LedgerRow]
) -> Iterator[Diagnostic]:
    """Attempts that were given up, of all that came to an end: by rule, source, length and task."""
    rules = {row.trajectory_id: _rule(row) for row in ledger if row.state in ("filtered", "expired", "failed")}
    rejected = [m for m in others if m.trajectory_id in rules]
    ended = [*members, *rejected]
    yield _share("data/rejected", len(rejected), len(ended), {})
    for rule, count in sorted(Counter(rules[m.trajectory_id] for m in rejected).items()):
        yield _share("data/rejected", count, len(ended), {"rule": rule})
    yield from _shares("source", [m.trajectory.task.source for m in ended], len(members))
    lengths = length_places(np.array([m.trajectory.num_action_tokens for m in ended], np.int64))
    yield from _shares("length", [LENGTH_NAMES[int(place)] for place in lengths], len(members))
    worst = Counter(m.trajectory.task.task_id for m in rejected)
    kept = set(sorted(worst, key=lambda task: (-worst[task], task))[:MOST_TASKS])
    tasks = [m.trajectory.task.task_id for m in ended]
    yield from _shares("task", [task if task in kept else None for task in tasks], len(members))
    aged = sum(row.state in ("expired", "requeued") and row.rule in _AGES for row in ledger)
    left = sum(row.state in ("trained", "filtered", "expired", "failed", "requeued") for row in ledger)
    yield _share("stale/cancelled", aged, left, {})


def _shares(label: str, keys: Sequence[str | None], num_trained: int) -> Iterator[Diagnostic]:
    """Of every key the share that lies behind the trained ones."""
    totals, given_up = Counter(keys), Counter(keys[num_trained:])
    for key in sorted(k for k in totals if k is not None):
        yield _share("data/rejected", given_up[key], totals[key], {label: key})


def _rule(row: LedgerRow) -> str:
    """A name of few: why an attempt failed is a sentence of its own."""
    return "failed" if row.state == "failed" or row.rule is None else row.rule


def _groups(groups: Sequence[Group], ledger: Sequence[LedgerRow]) -> Iterator[Diagnostic]:
    """Groups that lost members, were dropped for it, and were filled up; the last is no rule of a run."""
    dropped = {row.group_id for row in ledger if row.state == "filtered" and row.rule == "incomplete_group"}
    short = sum(len(group.members) < group.size for group in groups)
    total = len(groups) + len(dropped)
    yield _share("group/incomplete", short + len(dropped), total, {})
    yield _share("group/dropped", len(dropped), total, {})
    yield _share("group/padded", 0, total, {})


def _difficulty(
    attempts: Sequence[ScoredTrajectory], success_at: float, labels: Mapping[str, str]
) -> Iterator[Diagnostic]:
    """Prompts by the share of their scored attempts that are right."""
    if not attempts:
        return
    _, rates = group_rates(attempts, rewards_of(attempts), success_at=success_at)
    counts = np.bincount(rate_places(rates), minlength=len(RATE_NAMES))
    for bucket, count in zip(RATE_NAMES, counts.tolist(), strict=True):
        yield _share("reward/difficulty", count, len(rates), {**labels, "bucket": bucket})


def _share(name: str, count: int, total: int, labels: Mapping[str, str]) -> Diagnostic:
    value = count / total if total else None
    return Diagnostic(name=name, value=value, unit="fraction", num_items=total, labels=labels)
