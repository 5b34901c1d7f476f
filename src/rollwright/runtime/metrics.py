"""The numbers of a step that only the loop knows: episodes, rewards, slots, time."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from rollwright.record import Metric, ScoredTrajectory

__all__ = ["StepClock", "step_metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClock:
    """Seconds of the parts of a step."""

    collect_s: float
    learn_s: float
    publish_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Number:
    name: str
    value: float | None
    unit: str
    num_items: int
    labels: Mapping[str, str]


def step_metrics(
    step: int,
    members: Sequence[ScoredTrajectory],
    *,
    balance: Mapping[str, int],
    clock: StepClock,
    now: datetime,
) -> tuple[Metric, ...]:
    """Metrics of one step, of the episodes as trained and before any weighting.

    Args:
        step: the step they belong to.
        members: episodes of the batch.
        balance: slots by state after the step.
        clock: seconds of its parts.
        now: their time stamp.
    """
    numbers = [*_episodes(members), *_rewards(members)]
    numbers += [
        _Number(name="data/slots", value=float(count), unit="slots", num_items=count, labels={"state": state})
        for state, count in balance.items()
    ]
    sampled = sum(m.trajectory.num_action_tokens for m in members)
    numbers += [
        _Number(name="time/collect", value=clock.collect_s, unit="s", num_items=1, labels={}),
        _Number(name="time/learn", value=clock.learn_s, unit="s", num_items=1, labels={}),
        _Number(name="time/publish", value=clock.publish_s, unit="s", num_items=1, labels={}),
        _Number(
            name="sys/tokens_s",
            value=sampled / clock.collect_s if clock.collect_s else None,
            unit="tokens/s",
            num_items=sampled,
            labels={},
        ),
    ]
    return tuple(
        Metric(
            step=step,
            update=0,
            name=n.name,
            value=n.value,
            unit=n.unit,
            labels=n.labels,
            num_items=n.num_items,
            recorded_at=now,
        )
        for n in numbers
    )


def _episodes(members: Sequence[ScoredTrajectory]) -> Iterator[_Number]:
    total = len(members)
    reasons = Counter(str(m.trajectory.terminal_reason) for m in members)
    for reason, count in sorted(reasons.items()):
        yield _Number(
            name="terminal/reason", value=count / total, unit="fraction", num_items=total, labels={"reason": reason}
        )
    calls = [c for m in members for c in m.trajectory.tool_calls]
    yield _Number(name="env/tool_calls", value=_mean(len(calls), total), unit="calls", num_items=total, labels={})
    yield _Number(
        name="env/invalid_action",
        value=_mean(sum(c.status == "invalid_call" for c in calls), len(calls)),
        unit="fraction",
        num_items=len(calls),
        labels={},
    )
    tokens = sum(m.trajectory.num_action_tokens for m in members)
    yield _Number(name="len/response", value=_mean(tokens, total), unit="tokens", num_items=total, labels={})


def _rewards(members: Sequence[ScoredTrajectory]) -> Iterator[_Number]:
    scored = [m for m in members if not isinstance(m.outcome, str)]
    total = sum(float(m.outcome) for m in scored)
    yield _Number(name="reward/total", value=_mean(total, len(scored)), unit="reward", num_items=len(scored), labels={})
    yield _Number(
        name="data/unscored",
        value=float(len(members) - len(scored)),
        unit="episodes",
        num_items=len(members),
        labels={},
    )
    parts: dict[str, list[float]] = {}
    for member in scored:
        for component in member.reward_components:
            parts.setdefault(component.name, []).append(component.value)
    for name, values in sorted(parts.items()):
        yield _Number(
            name="reward/component",
            value=sum(values) / len(values),
            unit="reward",
            num_items=len(values),
            labels={"component": name},
        )
    by_source: dict[str, list[float]] = {}
    for member in scored:
        by_source.setdefault(member.trajectory.task.source, []).append(float(member.outcome))
    for source, values in sorted(by_source.items()):
        yield _Number(
            name="reward/total",
            value=sum(values) / len(values),
            unit="reward",
            num_items=len(values),
            labels={"source": source},
        )


def _mean(total: float, count: int) -> float | None:
    return total / count if count else None
