"""Numbers of the episodes of a step: how they ended, what they were paid, how long and how varied they are.

Every episode counts once, however many rows or tokens it has, before any weighting. A mean over nothing is None.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np

from rollwright.algorithms.diagnostics.updates import Diagnostic
from rollwright.record import Group, LedgerRow, ScoredTrajectory, TerminalReason
from rollwright.statistics import choice_entropy, count_distinct, repeated_share

__all__ = ["StepEpisodes", "episode_metrics"]

_QUANTILES: Final = (0.1, 0.5, 0.9, 0.99)
_RATES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_Key = TypeVar("_Key", str, int)
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepEpisodes:
    """What ended by a step."""

    members: Sequence[ScoredTrajectory]
    """Of the batch that was trained."""
    others: Sequence[ScoredTrajectory]
    """Filtered, expired and failed ones, which were not."""
    success_at: float
    """Reward from which an episode is right, verifier units."""
    groups: Sequence[Group] = ()
    """Of the batch; their members are `members`."""
    ledger: Sequence[LedgerRow] = ()
    """Changes of slots in the step."""
    graders: frozenset[str] = frozenset()
    """Verifiers that each say whether a task was solved."""
    num_useful: int | None = None
    """Trained episodes that carried a gradient; None where nobody counted."""


def episode_metrics(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """The numbers of a step's episodes, in a fixed order.

    Args:
        episodes: of the step.

    Yields:
        Those of the trained batch, but for the reward before the filter, which is of everything that was scored, and
        the causes, which are of every attempt that ended.
    """
    yield from _endings(episodes.members)
    yield from _causes(episodes)
    yield from _tools(episodes.members)
    yield from _lengths(episodes)
    yield from _rewards(episodes)
    yield from _variety(episodes)
    yield from _costs(episodes)


def _endings(members: Sequence[ScoredTrajectory]) -> Iterator[Diagnostic]:
    total = len(members)
    reasons = Counter(m.trajectory.terminal_reason for m in members)
    for reason, count in sorted(reasons.items()):
        yield _share("terminal/reason", count, total, {"reason": str(reason)})
    cut = {reason: count for reason, count in reasons.items() if reason.is_truncated}
    yield _share("len/trunc_rate", sum(cut.values()), total)
    for reason, count in sorted(cut.items()):
        yield _share("len/trunc_rate", count, total, {"reason": str(reason)})


def _causes(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """Of every attempt, retried and parked ones too: how it ended, and why it has no reward; in all and by source."""
    attempts = [*episodes.members, *episodes.others]
    strata: list[tuple[Mapping[str, str], list[ScoredTrajectory]]] = [({}, attempts)]
    strata += [({"source": s}, found) for s, found in _by(attempts, lambda m: [(m.trajectory.task.source, m)])]
    for labels, found in strata:
        for reason, count in sorted(Counter(m.trajectory.terminal_reason for m in found).items()):
            yield _share("terminal/attempts", count, len(found), {**labels, "reason": str(reason)})
        causes = Counter(m.outcome for m in found if isinstance(m.outcome, str))
        yield _share("data/unscored_share", causes.total(), len(found), labels)
        for cause, count in sorted(causes.items()):
            yield _share("data/unscored_share", count, len(found), {**labels, "cause": cause})
    failed = sum(m.trajectory.terminal_reason is TerminalReason.INFRASTRUCTURE_FAILURE for m in attempts)
    yield Diagnostic(name="sys/infra_excluded", value=float(failed), unit="count", num_items=len(attempts))
    parked = sum(m.trajectory.terminal_reason is TerminalReason.SUPERSEDED for m in attempts)
    yield Diagnostic(name="data/parked", value=float(parked), unit="episodes", num_items=len(attempts))


def _tools(members: Sequence[ScoredTrajectory]) -> Iterator[Diagnostic]:
    calls = [c for m in members for c in m.trajectory.tool_calls]
    statuses = Counter(c.status for c in calls)
    yield _mean("env/tool_calls", [float(len(m.trajectory.tool_calls)) for m in members], "calls")
    for tool, count in sorted(Counter(c.tool for c in calls if c.status != "invalid_call").items()):
        yield Diagnostic(
            name="env/tool_calls",
            value=count / len(members),
            unit="calls",
            num_items=len(members),
            labels={"tool": tool},
        )
    yield _share("env/invalid_action", statuses["invalid_call"], len(calls))
    yield _share("env/tool_error", statuses["tool_error"], len(calls))
    yield _share("env/timeout", statuses["timeout"], len(calls))
    refused = sum(any(c.status == "refused" for c in m.trajectory.tool_calls) for m in members)
    yield _share("env/violation", refused, len(members))
    garbled = sum(any(c.status == "invalid_call" and not c.tool for c in m.trajectory.tool_calls) for m in members)
    yield _share("env/parser_error", garbled, len(members))
    yield _mean("env/tool_latency", [c.latency_s for c in calls], "s")
    yield _mean("env/steps", [float(m.trajectory.num_turns) for m in members], "turns")


def _lengths(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """Mean and quantiles, also of right and of wrong episodes: only wrong ones that grow are a length bias."""
    yield _mean("len/response", [float(m.trajectory.num_action_tokens) for m in episodes.members], "tokens")
    parts: dict[str | None, list[int]] = {None: []}
    for member in episodes.members:
        length = member.trajectory.num_action_tokens
        parts[None].append(length)
        if not isinstance(member.outcome, str):
            is_right = float(member.outcome) >= episodes.success_at
            parts.setdefault("right" if is_right else "wrong", []).append(length)
    for outcome, lengths in sorted(parts.items(), key=lambda part: part[0] or ""):
        for quantile in _QUANTILES:
            yield Diagnostic(
                name="len/response",
                value=float(np.quantile(lengths, quantile)) if lengths else None,
                unit="tokens",
                num_items=len(lengths),
                labels={"quantile": str(quantile), **({"outcome": outcome} if outcome else {})},
            )


def _rewards(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """Of the trained batch, of all that was scored before the filter, and of each raw component."""
    scored = [m for m in episodes.members if not isinstance(m.outcome, str)]
    seen = [*scored, *(m for m in episodes.others if not isinstance(m.outcome, str))]
    rewards = [float(m.outcome) for m in scored]
    yield _mean("reward/total", rewards, "reward")
    yield _spread("reward/total", rewards, {})
    yield _mean("reward/total", [float(m.outcome) for m in seen], "reward", {"when": "before_filter"})
    unscored = len(episodes.members) - len(scored)
    yield Diagnostic(name="data/unscored", value=float(unscored), unit="episodes", num_items=len(episodes.members))
    for name, values in _by(scored, lambda member: [(c.name, c.value) for c in member.reward_components]):
        yield _mean("reward/component", values, "reward", {"component": name})
        yield _spread("reward/component", values, {"component": name})


def _variety(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """Of the attempts at one task: how often they succeed, whether they repeat, and which tools they choose."""
    groups = [members for _, members in _by(episodes.members, lambda m: [(m.trajectory.group_id, m)])]
    rates: list[float] = []
    for members in groups:
        scored = [float(m.outcome) for m in members if not isinstance(m.outcome, str)]
        rates += [float(np.mean([reward >= episodes.success_at for reward in scored]))] if scored else []
    for bucket, count in _buckets(rates).items():
        yield _share("reward/hist_by_prompt", count, len(rates), {"bucket": bucket})
    for name, kind in (("explore/unique_answers", "answer"), ("explore/unique_programs", "program")):
        read = [[key for m in members if (key := _read(m, kind)) is not None] for members in groups]
        yield _mean(name, [float(count_distinct(keys)) for keys in read if keys], "count")
    repeated = [repeated_share([_actions(m) for m in members]) for members in groups if len(members) > 1]
    yield _mean("explore/repeated_traj_rate", [share for share in repeated if share is not None], "fraction")
    choices = [choice_entropy([c.tool for m in members for c in m.trajectory.tool_calls]) for members in groups]
    yield _mean("explore/tool_choice_entropy", [nats for nats in choices if nats is not None], "nat")


def _costs(episodes: StepEpisodes) -> Iterator[Diagnostic]:
    """What tools and graders of every attempt cost, for each one of the batch that is right; None where none tells."""
    attempts = [*episodes.members, *episodes.others]
    costs = [m.trajectory.cost for m in attempts] + [v.cost for m in attempts for v in m.verdicts]
    known = [cost for cost in costs if cost is not None]
    right = sum(not isinstance(m.outcome, str) and float(m.outcome) >= episodes.success_at for m in episodes.members)
    yield Diagnostic(
        name="env/cost_per_success",
        value=sum(known) / right if known and right else None,
        unit="currency",
        num_items=right,
    )


def _read(member: ScoredTrajectory, kind: str) -> Hashable:
    """What a grader read out of an episode; of a program also the files that it left, where nobody read one."""
    said = (v.canonical for v in member.verdicts if v.canonical is not None and v.canonical.kind == kind)
    found = next((canonical.text for canonical in said), None)
    left = member.trajectory.artifacts
    return tuple(sorted(left.items())) if found is None and kind == "program" and left else found


def _actions(member: ScoredTrajectory) -> Hashable:
    """What the policy wrote in an episode, token by token."""
    return tuple(s.token_ids.tobytes() for s in member.trajectory.segments if s.origin in ("policy", "demonstration"))


def _buckets(rates: Sequence[float]) -> Mapping[str, int]:
    """Prompts by success rate: never, up to a quarter, …, always."""
    names = ["0", *(f"({low:g},{high:g}]" for low, high in zip(_RATES[:-2], _RATES[1:-1], strict=True))]
    names += [f"({_RATES[-2]:g},1)", "1"]
    places = Counter(len(names) - 1 if rate == 1.0 else int(np.searchsorted(_RATES[:-1], rate)) for rate in rates)
    return {name: places[place] for place, name in enumerate(names)}


def _by(
    members: Sequence[ScoredTrajectory], pairs: Callable[[ScoredTrajectory], Sequence[tuple[_Key, _Value]]]
) -> list[tuple[_Key, list[_Value]]]:
    """Values by key, in order of the keys."""
    found: dict[_Key, list[_Value]] = {}
    for member in members:
        for key, value in pairs(member):
            found.setdefault(key, []).append(value)
    return sorted(found.items(), key=lambda item: item[0])


def _mean(name: str, values: Sequence[float], unit: str, labels: Mapping[str, str] | None = None) -> Diagnostic:
    value = sum(values) / len(values) if values else None
    return Diagnostic(name=name, value=value, unit=unit, num_items=len(values), labels=labels or {})


def _spread(name: str, rewards: Sequence[float], labels: Mapping[str, str]) -> Diagnostic:
    """Standard deviation over the episodes (n)."""
    value = float(np.std(rewards)) if rewards else None
    return Diagnostic(name=name, value=value, unit="reward", num_items=len(rewards), labels={**labels, "stat": "std"})


def _share(name: str, count: int, total: int, labels: Mapping[str, str] | None = None) -> Diagnostic:
    value = count / total if total else None
    return Diagnostic(name=name, value=value, unit="fraction", num_items=total, labels=labels or {})
