"""What an episode is paid, how long it is and whether it came to its own end, part by part.

Every episode stands in one part of each kind: its source, its number of action tokens, the sign of its reward against
its group's mean, the lag of its oldest token, whether it is right, and how often its prompt was solved in this batch.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.batches.buckets import LAG_NAMES, LENGTH_NAMES, RATE_NAMES, lag_places, length_places, rate_places
from rollwright.record import ScoredTrajectory

__all__ = ["episode_strata_metrics", "group_rates", "rewards_of"]

_SIGNS = ("negative", "zero", "positive", "unscored")
_OUTCOMES = ("wrong", "right", "unscored")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Partition:
    label: str
    names: tuple[str, ...]
    index: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Values:
    """One number an episode; NaN where it has none."""

    name: str
    unit: str
    values: NDArray[np.float64]
    labels: Mapping[str, str]


def episode_strata_metrics(
    members: Sequence[ScoredTrajectory], *, step: int, success_at: float
) -> Iterator[Diagnostic]:
    """Means over the episodes of every part; a kind of part in which all stand together says nothing new.

    Args:
        members: of the batch.
        step: that they are trained in.
        success_at: reward from which an episode is right, verifier units.

    Yields:
        Numbers that are defined, each with its part as label; by source also where there is one source alone.
    """
    if not members:
        return
    values = _values(members)
    for part in _partitions(members, step, success_at):
        if part.label != "source" and not (part.index != part.index[0]).any():
            continue
        for one in values:
            yield from _means(one, part)


def rewards_of(members: Sequence[ScoredTrajectory]) -> NDArray[np.float64]:
    """(n,) the reward of each, NaN where it has none."""
    return np.array([np.nan if isinstance(m.outcome, str) else float(m.outcome) for m in members], np.float64)


def group_rates(
    members: Sequence[ScoredTrajectory], rewards: NDArray[np.float64], *, success_at: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The group of each member, numbered from 0, and of each group the share of its scored members that are right."""
    groups = np.unique([m.trajectory.group_id for m in members], return_inverse=True)[1].astype(np.int64)
    return groups, _group_means(np.where(np.isnan(rewards), np.nan, rewards >= success_at), groups)


def _values(members: Sequence[ScoredTrajectory]) -> list[_Values]:
    reasons = [m.trajectory.terminal_reason for m in members]
    found = [
        _Values(name="reward/total", unit="reward", values=rewards_of(members), labels={}),
        _Values(
            name="len/response",
            unit="tokens",
            values=np.array([m.trajectory.num_action_tokens for m in members], np.float64),
            labels={},
        ),
        _Values(
            name="len/trunc_rate",
            unit="fraction",
            values=np.array([reason.is_truncated for reason in reasons], np.float64),
            labels={},
        ),
        _Values(
            name="terminal/completed",
            unit="fraction",
            values=np.array([reason.is_trainable and not reason.is_truncated for reason in reasons], np.float64),
            labels={},
        ),
    ]
    names = sorted({c.name for m in members for c in m.reward_components})
    columns = {name: np.full(len(members), np.nan) for name in names}
    for place, member in enumerate(members):
        if not isinstance(member.outcome, str):
            for component in member.reward_components:
                columns[component.name][place] = component.value
    found += [
        _Values(name="reward/component", unit="reward", values=column, labels={"component": name})
        for name, column in columns.items()
    ]
    return found


def _partitions(members: Sequence[ScoredTrajectory], step: int, success_at: float) -> tuple[_Partition, ...]:
    rewards = rewards_of(members)
    groups, rates = group_rates(members, rewards, success_at=success_at)
    sources, of_source = np.unique([m.trajectory.task.source for m in members], return_inverse=True)
    lengths = np.array([m.trajectory.num_action_tokens for m in members], np.int64)
    signs = np.sign(np.round(rewards - _group_means(rewards, groups)[groups], 12)) + 1
    is_scored = ~np.isnan(rewards)
    return (
        _Partition(label="source", names=tuple(map(str, sources)), index=of_source.astype(np.int64)),
        _Partition(label="length", names=LENGTH_NAMES, index=length_places(lengths)),
        _Partition(label="advantage", names=_SIGNS, index=np.where(is_scored, signs, 3).astype(np.int64)),
        _Partition(label="lag", names=LAG_NAMES, index=lag_places(_lags(members, step))),
        _Partition(
            label="outcome", names=_OUTCOMES, index=np.where(is_scored, rewards >= success_at, 2).astype(np.int64)
        ),
        _Partition(label="difficulty", names=RATE_NAMES, index=rate_places(rates[groups])),
    )


def _lags(members: Sequence[ScoredTrajectory], step: int) -> NDArray[np.int64]:
    """Steps since the oldest token of each; -1 where a model sampled nothing."""
    found: list[int] = []
    for member in members:
        versions = [
            s.policy_version
            for s in member.trajectory.segments
            if s.origin == "policy" and s.policy_version is not None and s.num_tokens
        ]
        found.append(step - 1 - min(versions) if versions else -1)
    return np.array(found, np.int64)


def _group_means(values: NDArray[np.float64], groups: NDArray[np.int64]) -> NDArray[np.float64]:
    """Over the values of each group that are numbers; NaN where none is."""
    known = ~np.isnan(values)
    counts = np.bincount(groups, weights=known)
    totals = np.bincount(groups, weights=np.where(known, values, 0.0))
    return np.divide(totals, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def _means(one: _Values, part: _Partition) -> Iterator[Diagnostic]:
    known = ~np.isnan(one.values)
    counts = np.bincount(part.index, weights=known, minlength=len(part.names))
    totals = np.bincount(part.index, weights=np.where(known, one.values, 0.0), minlength=len(part.names))
    for name, count, total in zip(part.names, counts.tolist(), totals.tolist(), strict=True):
        if count:
            yield Diagnostic(
                name=one.name,
                value=total / count,
                unit=one.unit,
                num_items=int(count),
                labels={**one.labels, part.label: name},
            )
