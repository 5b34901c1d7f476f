"""Bars of a run: mixture before and after filtering, ends of episodes, who was busy and who waited, ages of tokens."""

from collections.abc import Collection, Iterable, Mapping, Sequence

from rollwright.viewer.curves import LineSpec, metrics_provenance
from rollwright.viewer.figures import NOT_MEASURED_BY_A_PROTOCOL, UNKNOWN, Axis, Figure, Point, Provenance, Series
from rollwright.viewer.figures_run import MetricLine, RunNumbers

__all__ = [
    "bottleneck",
    "difficulty_bars",
    "lag_bars",
    "mixture_bars",
    "parts_bars",
    "tables_provenance",
    "terminal_bars",
]

_BUCKETS = ("0", "(0,0.25]", "(0.25,0.5]", "(0.5,0.75]", "(0.75,1)", "1", "unscored")
_WHEN = {"before_filter": "sampled", "trained": "trained"}
_STATES = ("busy", "syncing", "starved", "blocked")


def mixture_bars(numbers: RunNumbers) -> Figure:
    """Share of each source among the slots that were dispatched, and among those that were trained."""
    sources = sorted({slot.source for slot in numbers.slots})
    parts = {
        "dispatched": {one: _slots(numbers, one, None) for one in sources},
        "trained": {one: _slots(numbers, one, "trained") for one in sources},
    }
    return Figure(
        slug="mixture",
        title="Mixture before and after filtering",
        x=Axis(name="source", unit=""),
        y=Axis(name="share of slots", unit="fraction"),
        series=_shares(parts, sources) if sources else (),
        categories=tuple(sources),
        provenance=tables_provenance(
            numbers, "SELECT task_source, state, count(*) FROM slots GROUP BY ALL; each bar over the sum of its color"
        ),
        note="the difference is what filtering, age and failures took",
        absent="" if sources else "no slot was dispatched: this run trained on demonstrations alone, or not at all",
    )


def difficulty_bars(numbers: RunNumbers) -> Figure:
    """Prompts by success rate, of all that was sampled and of what was trained; each step counts by its prompts."""
    lines = [
        one for one in numbers.metrics if one.name == "reward/difficulty" and set(one.labels) == {"bucket", "when"}
    ]
    supervised = {one.stage for one in numbers.manifest.algorithm if one.estimator == "supervised"}
    steps = {step for step, stage in numbers.stages.items() if stage not in supervised}
    shares = {(one.labels["when"], one.labels["bucket"]): _mean_over(one, steps) for one in lines}
    shown = [(name, when) for when, name in _WHEN.items() if any(shares.get((when, b)) is not None for b in _BUCKETS)]
    return Figure(
        slug="difficulty",
        title="Difficulty before and after filtering",
        x=Axis(name="success rate of a prompt", unit=""),
        y=Axis(name="share of prompts", unit="fraction"),
        series=tuple(
            _bars(name, "fraction", [shares.get((when, bucket)) or 0.0 for bucket in _BUCKETS], numbers.last_step)
            for name, when in shown
        ),
        categories=_BUCKETS,
        provenance=metrics_provenance(numbers, [LineSpec(metric="reward/difficulty")]),
        note="supervised steps are left out",
        absent="" if shown else "no step of reinforcement learning has reward/difficulty",
    )


def terminal_bars(numbers: RunNumbers) -> Figure:
    """How attempts ended, by purpose."""
    purposes = sorted({end.purpose for end in numbers.ends})
    reasons = sorted({end.terminal_reason for end in numbers.ends})
    parts = {
        purpose: {
            reason: sum(e.count for e in numbers.ends if (e.purpose, e.terminal_reason) == (purpose, reason))
            for reason in reasons
        }
        for purpose in purposes
    }
    return Figure(
        slug="ends",
        title="How attempts ended, by purpose",
        x=Axis(name="terminal reason", unit=""),
        y=Axis(name="share of attempts", unit="fraction"),
        series=_shares(parts, reasons),
        categories=tuple(reasons),
        provenance=tables_provenance(
            numbers, "SELECT purpose, terminal_reason, count(*) FROM trajectories GROUP BY ALL, over the purpose's sum"
        ),
        note="retried and parked attempts are counted too; limits are truncation, not an outcome",
        absent="" if reasons else "this run has no episode yet",
    )


def parts_bars(numbers: RunNumbers) -> Figure:
    """Seconds of each part by what it did."""
    seconds = _part_seconds(numbers)
    parts = sorted({part for part, _ in seconds})
    series = tuple(
        _bars(state, "s", [seconds.get((part, state), 0.0) for part in parts], numbers.last_step)
        for state in _STATES
        if any((part, state) in seconds for part in parts)
    )
    longest = bottleneck(numbers)
    return Figure(
        slug="parts",
        title="Busy and idle time by part",
        x=Axis(name="part", unit=""),
        y=Axis(name="time", unit="s"),
        series=series,
        categories=tuple(parts),
        provenance=metrics_provenance(numbers, [LineSpec(metric="time/part")]),
        note=f"the bottleneck is {longest}: it was busy longest" if longest else "",
        absent="" if parts else "this run has no value of time/part",
    )


def lag_bars(numbers: RunNumbers) -> Figure:
    """Trained tokens of each age."""
    lines = sorted(numbers.lines("stale/lag_hist", "lag"), key=lambda line: int(line.labels["lag"]))
    totals = [sum(value or 0.0 for value in line.values) for line in lines]
    ages = tuple(line.labels["lag"] for line in lines)
    tokens = sum(totals)
    shares = [total / tokens if tokens else 0.0 for total in totals]
    return Figure(
        slug="lag-histogram",
        title="Trained tokens by age",
        x=Axis(name="lag", unit="steps"),
        y=Axis(name="share of trained tokens", unit="fraction"),
        series=(_bars("tokens", "fraction", shares, numbers.last_step, [int(t) for t in totals]),) if lines else (),
        categories=ages,
        provenance=metrics_provenance(numbers, [LineSpec(metric="stale/lag_hist")]),
        absent="" if lines else "this run has no value of stale/lag_hist",
    )


def bottleneck(numbers: RunNumbers) -> str | None:
    """The part that was busy longest; None where no part was timed."""
    seconds = _part_seconds(numbers)
    busy = {part: value for (part, state), value in seconds.items() if state == "busy"}
    return max(sorted(busy), key=lambda part: busy[part]) if busy else None


def tables_provenance(numbers: RunNumbers, made_by: str) -> Provenance:
    """Where counts over a run's tables come from: the whole of them, by no sampling."""
    return Provenance(
        made_by=made_by,
        protocol=NOT_MEASURED_BY_A_PROTOCOL,
        protocol_sha256="none",
        tasks="all that the run holds",
        samples="all that the run holds",
        sampling="see the configuration",
        budgets=", ".join(f"{k} {v:g}" for k, v in numbers.manifest.environment.timeout_policy.items()) or UNKNOWN,
        interval="none: counted, not sampled",
        steps=f"0 to {numbers.last_step}",
    )


def _part_seconds(numbers: RunNumbers) -> dict[tuple[str, str], float]:
    return {
        (line.labels["part"], line.labels["state"]): sum(value or 0.0 for value in line.values)
        for line in numbers.metrics
        if line.name == "time/part" and set(line.labels) == {"part", "state"}
    }


def _mean_over(line: MetricLine, steps: Collection[int]) -> float | None:
    """Over these steps, each by its items; None where none of them has a value."""
    known = [
        (value, items)
        for step, value, items in zip(line.steps, line.values, line.num_items, strict=True)
        if value is not None and step in steps
    ]
    total = sum(items for _, items in known)
    return sum(value * items for value, items in known) / total if total else None


def _slots(numbers: RunNumbers, source: str, state: str | None) -> int:
    return sum(slot.count for slot in numbers.slots if slot.source == source and state in (None, slot.state))


def _shares(parts: Mapping[str, Mapping[str, int]], categories: Sequence[str]) -> tuple[Series, ...]:
    found: list[Series] = []
    for name, counts in parts.items():
        total = sum(counts.values())
        if total:
            shares = [counts[category] / total for category in categories]
            found.append(_bars(name, "fraction", shares, 0, [counts[category] for category in categories]))
    return tuple(found)


def _bars(name: str, unit: str, values: Iterable[float], step: int, counts: Sequence[int] = ()) -> Series:
    return Series(
        name=name,
        unit=unit,
        points=tuple(
            Point(step=step, x=float(place), value=value, num_items=counts[place] if counts else 0)
            for place, value in enumerate(values)
        ),
    )
