"""Curves of a run: one metric or several over steps or over what the steps cost, thinned where there are too many."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil, sqrt
from typing import Literal

from rollwright.evidence.gates import GateRecord
from rollwright.record.metrics import metric_named
from rollwright.viewer.figures import NOT_MEASURED_BY_A_PROTOCOL, Axis, Figure, Mark, Point, Provenance, Series
from rollwright.viewer.figures_run import MetricLine, RunNumbers, label_order

__all__ = [
    "AXES",
    "MOST_POINTS",
    "AxisName",
    "CurveSpec",
    "LineSpec",
    "draw_curve",
    "gates_on",
    "is_about",
    "last_measured_kl",
    "merged_provenance",
    "metrics_provenance",
    "overlay",
    "place_of",
    "stage_marks",
    "thin",
]

AxisName = Literal["step", "episodes", "tokens", "seconds", "sqrt_kl"]

AXES: Mapping[AxisName, Axis] = {
    "step": Axis(name="step", unit=""),
    "episodes": Axis(name="training episodes", unit=""),
    "tokens": Axis(name="action tokens of training episodes", unit="tokens"),
    "seconds": Axis(name="time of the steps, evaluations left out", unit="s"),
    "sqrt_kl": Axis(name="square root of the KL to the reference", unit="√(nat/token)"),
}
MOST_POINTS = 400
"""Of a series that is drawn; above that, neighbors are put together and the figure says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSpec:
    """One line, or with `by` one line for each value of a label."""

    metric: str
    labels: Mapping[str, str] = field(default_factory=lambda: {})
    """Exactly these."""
    by: str | None = None
    """One line for each value of this label, besides `labels`."""
    name: str = ""
    """In the legend; empty: the label's value, or the metric's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSpec:
    """A figure of stored metrics."""

    slug: str
    title: str
    y: Axis
    lines: tuple[LineSpec, ...]
    note: str = ""


def draw_curve(numbers: RunNumbers, spec: CurveSpec, axis: AxisName = "step") -> Figure:
    """A figure of stored metrics over an axis; where the run has none of them, it says so."""
    place = place_of(numbers, axis)
    found = [series for line in spec.lines for series in _series(numbers, line, place)]
    drawn = tuple(_measured(one) for one in found if any(point.value is not None for point in one.points))
    thinned = tuple(thin(one) for one in drawn)
    names = ", ".join(dict.fromkeys(line.metric for line in spec.lines))
    return Figure(
        slug=spec.slug if axis == "step" else f"{spec.slug}-over-{axis.replace('_', '-')}",
        title=spec.title if axis == "step" else f"{spec.title} over {AXES[axis].name}",
        x=AXES[axis],
        y=spec.y,
        series=thinned,
        provenance=metrics_provenance(numbers, spec.lines),
        marks=stage_marks(numbers, place) if axis != "sqrt_kl" else (),
        note=spec.note,
        thinned=_said(drawn, thinned),
        absent="" if drawn else f"this run has no value of {names}",
    )


def metrics_provenance(numbers: RunNumbers, lines: Sequence[LineSpec]) -> Provenance:
    """Where numbers of the table `metrics` come from: the query and each metric's formula."""
    names = tuple(dict.fromkeys(line.metric for line in lines))
    listed = ", ".join(f"'{name}'" for name in names)
    entries = [(name, metric_named(name)) for name in names]
    formulas = "; ".join(f"{name}: {entry.formula}" for name, entry in entries if entry is not None)
    stored = [one for one in numbers.metrics if one.name in names]
    steps = [step for one in stored for step in (one.steps[0], one.steps[-1])]
    return Provenance(
        made_by=f"SELECT step, name, labels, value, num_items FROM metrics WHERE name IN ({listed}). {formulas}",
        protocol=NOT_MEASURED_BY_A_PROTOCOL,
        protocol_sha256="none",
        tasks="training tasks as dispatched",
        samples="as dispatched" if "rollout.group_size" not in numbers.configuration else _groups(numbers),
        sampling=training_sampling(numbers.configuration),
        budgets=", ".join(f"{k} {v:g}" for k, v in numbers.manifest.environment.timeout_policy.items()) or "unknown",
        interval="none: the whole of each batch",
        steps=f"{min(steps)} to {max(steps)}" if steps else "none",
        gate=gates_on(numbers, names),
    )


def gates_on(numbers: RunNumbers, names: Sequence[str]) -> str:
    """The gates that carry numbers of these metrics, each with its newest outcome; alarms carry none."""
    newest = {
        record.verdict.gate: f"gate {record.verdict.gate}: {record.verdict.outcome} at step {record.step}"
        for record in numbers.gates
        if record.purpose != "alarm" and any(is_about(record, name) for name in names)
    }
    return ", ".join(newest.values()) or "no gate"


def is_about(record: GateRecord, metric: str) -> bool:
    """True where a gate judged this metric: its name stands in what was measured, as a word of its own."""
    return f" {metric} " in f" {record.what.replace('(', ' ( ')} "


def training_sampling(configuration: Mapping[str, str]) -> str:
    """How the policy was sampled in training, from the configuration."""
    keys = ("temperature", "top_p", "top_k", "min_p")
    known = [f"{key} {configuration[f'rollout.{key}']}" for key in keys if f"rollout.{key}" in configuration]
    return ", ".join(known) or "unknown"


def place_of(numbers: RunNumbers, axis: AxisName) -> Callable[[int], float | None]:
    """Where a step lies along an axis; None where it has no place there."""
    costs = {cost.step: cost for cost in numbers.costs}
    match axis:
        case "step":
            return float
        case "sqrt_kl":
            distances = _by_step(numbers.line("policy/kl_ref"))
            return lambda step: _root(distances.get(step))
        case "episodes":
            return lambda step: float((costs.get(step) or numbers.cost_at(step)).episodes)
        case "tokens":
            return lambda step: float((costs.get(step) or numbers.cost_at(step)).tokens)
        case "seconds":
            return lambda step: (costs.get(step) or numbers.cost_at(step)).seconds


def last_measured_kl(numbers: RunNumbers) -> Callable[[int], float | None]:
    """Root of the newest KL to the reference at or before a step of the same stage; None where none was measured."""
    distances = {step: value for step, value in _by_step(numbers.line("policy/kl_ref")).items() if value is not None}

    def place(step: int) -> float | None:
        stage = numbers.stages.get(step)
        before = [at for at in distances if at <= step and numbers.stages.get(at) == stage]
        return _root(distances[max(before)]) if before else None

    return place


def stage_marks(numbers: RunNumbers, place: Callable[[int], float | None]) -> tuple[Mark, ...]:
    """Where each stage but the first began: at the end of the step before."""
    steps = sorted(numbers.stages)
    begun = [(step, numbers.stages[step]) for before, step in pairwise(steps) if _differ(numbers, before, step)]
    placed = [(place(step - 1), stage) for step, stage in begun]
    return tuple(Mark(x=x, text=f"{stage} begins") for x, stage in placed if x is not None)


def thin(series: Series, most: int = MOST_POINTS) -> Series:
    """At most so many points: neighbors put together, their mean by items, with the smallest and largest as ends."""
    if len(series.points) <= most:
        return series
    size = ceil(len(series.points) / most)
    bins = [series.points[start : start + size] for start in range(0, len(series.points), size)]
    kept = tuple(_together(part) for part in bins)
    return replace(series, points=kept, interval=f"smallest and largest of {size} neighboring points")


def overlay(figures: Sequence[tuple[str, Figure]]) -> Figure:
    """The same figure of several runs as one; each series is led by its run's name.

    Args:
        figures: name of a run and its figure, at least one; all of one slug.
    """
    first = figures[0][1]
    series = tuple(replace(one, name=_led(run, one.name, len(f.series))) for run, f in figures for one in f.series)
    missing = [run for run, figure in figures if not figure.series]
    said = f"nothing stored by {', '.join(missing)}" if missing else ""
    return replace(
        first,
        series=series,
        provenance=merged_provenance([figure.provenance for _, figure in figures]),
        marks=(),
        thinned=next((figure.thinned for _, figure in figures if figure.thinned), ""),
        note=". ".join(part for part in (first.note.rstrip("."), said) if part),
        absent="" if series else first.absent.replace("this run has", "these runs have"),
    )


def merged_provenance(parts: Sequence[Provenance]) -> Provenance:
    """Where numbers of several runs come from: each part once, and all of what the runs differ in."""

    def each(of: Callable[[Provenance], str]) -> str:
        return "; ".join(dict.fromkeys(of(part) for part in parts))

    return Provenance(
        made_by=each(lambda part: part.made_by),
        protocol=each(lambda part: part.protocol),
        protocol_sha256=each(lambda part: part.protocol_sha256),
        tasks=each(lambda part: part.tasks),
        samples=each(lambda part: part.samples),
        sampling=each(lambda part: part.sampling),
        budgets=each(lambda part: part.budgets),
        interval=each(lambda part: part.interval),
        steps=each(lambda part: part.steps),
        label=parts[0].label,
        gate=each(lambda part: part.gate),
    )


def _led(run: str, name: str, num_series: int) -> str:
    return run if num_series == 1 else f"{run}: {name}"


def _groups(numbers: RunNumbers) -> str:
    return f"{numbers.configuration['rollout.group_size']} in a group"


def _differ(numbers: RunNumbers, before: int, step: int) -> bool:
    return numbers.stages[before] != numbers.stages[step]


def _series(numbers: RunNumbers, spec: LineSpec, place: Callable[[int], float | None]) -> list[Series]:
    if spec.by is None:
        line = numbers.line(spec.metric, **spec.labels)
        return [] if line is None else [_one(line, spec.name or spec.metric, place)]
    wanted = {*spec.labels, spec.by}
    lines = [one for one in numbers.metrics if one.name == spec.metric and set(one.labels) == wanted]
    chosen = [one for one in lines if all(one.labels[key] == text for key, text in spec.labels.items())]
    in_order = sorted(chosen, key=lambda one: label_order(one.labels[spec.by or ""]))
    return [_one(one, f"{spec.name} {one.labels[spec.by]}".strip(), place) for one in in_order]


def _one(line: MetricLine, name: str, place: Callable[[int], float | None]) -> Series:
    points = [
        Point(step=step, x=x, value=value, num_items=items)
        for step, value, items in zip(line.steps, line.values, line.num_items, strict=True)
        if (x := place(step)) is not None
    ]
    return Series(
        name=name, unit=line.unit, labels=line.labels, points=tuple(sorted(points, key=lambda p: (p.x, p.step)))
    )


def _measured(series: Series) -> Series:
    """What was measured at fewer than half of the steps is joined by a line, each value marked; else gaps stay."""
    known = tuple(point for point in series.points if point.value is not None)
    if 2 * len(known) >= len(series.points):
        return series
    said = f"{series.name}, at {len(known)} of {len(series.points)} steps"
    return replace(series, name=said, points=known)


def _together(points: Sequence[Point]) -> Point:
    known = [(p.value, p.num_items) for p in points if p.value is not None]
    values = [value for value, _ in known]
    items = sum(count for _, count in known)
    weighed = sum(value * count for value, count in known) / items if items else None
    plain = sum(values) / len(values) if values else None
    ends = [end for p in points for end in (p.value, p.low, p.high) if end is not None]
    return Point(
        step=points[-1].step,
        x=points[-1].x,
        value=plain if weighed is None else weighed,
        low=min(ends, default=None),
        high=max(ends, default=None),
        num_items=items,
    )


def _said(drawn: Sequence[Series], thinned: Sequence[Series]) -> str:
    cut = [(before, after) for before, after in zip(drawn, thinned, strict=True) if before is not after]
    if not cut:
        return ""
    before, after = max(cut, key=lambda pair: len(pair[0].points))
    return (
        f"{len(before.points):,} points are drawn as {len(after.points):,}: each is a mean of neighbors by items, "
        f"the band their smallest and largest value; the table metrics has every one"
    )


def _by_step(line: MetricLine | None) -> dict[int, float | None]:
    return {} if line is None else dict(zip(line.steps, line.values, strict=True))


def _root(distance: float | None) -> float | None:
    return None if distance is None else sqrt(max(0.0, distance))
