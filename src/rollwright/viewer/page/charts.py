"""Figures for the page: which there are, one of them for a run or several, and as numbers that a script draws."""

from collections.abc import Mapping, Sequence
from typing import Final, cast, get_args

from rollwright.record.metrics import MetricEntry, metric_named
from rollwright.viewer.curves import AxisName, CurveSpec, LineSpec, draw_curve, overlay
from rollwright.viewer.curves_held_out import held_out_curve, pass_at_k_curve
from rollwright.viewer.curves_training import HEADLINES, TRAINING_CURVES
from rollwright.viewer.figures import Axis, Figure, Series
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.page.errors import NotFoundError
from rollwright.viewer.page.shelf import StatedNumbers

__all__ = ["AXIS_NAMES", "COMPARED", "PARTS", "axis_of", "drawn", "entries_of", "figure", "plotted"]

AXIS_NAMES: Final[Mapping[AxisName, str]] = {
    "step": "step",
    "episodes": "episodes",
    "tokens": "tokens",
    "seconds": "wall clock",
    "sqrt_kl": "√KL",
}
_HELD_OUT: Final = {"held-out-success": "success", "held-out-reward": "reward", "held-out-tool-use": "tool_use"}
_METRIC: Final = "metric:"
_OVERLAID: Final = {spec.slug: spec for spec in HEADLINES}
_OF_RUN: Final = {spec.slug: spec for part in TRAINING_CURVES.values() for spec in part}

PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Held out": ("held-out-success", "held-out-reward", "pass-at-k"),
    **{part: tuple(spec.slug for spec in specs) for part, specs in TRAINING_CURVES.items()},
}
"""Heading to the curves of a run below it."""
COMPARED: Final = ("held-out-success", "held-out-reward", *_OVERLAID)
"""Curves of several runs over each other."""
_MOST_SERIES: Final = 12


def axis_of(text: str | None) -> AxisName:
    """The axis of that name; steps where there is none."""
    return cast("AxisName", text) if text in get_args(AxisName) else "step"


def figure(numbers: RunNumbers, curve: str, axis: AxisName, specs: Mapping[str, CurveSpec] = _OF_RUN) -> Figure:
    """A curve of one run.

    Args:
        numbers: of the run.
        curve: one of `PARTS`, or `metric:NAME` for every series of a metric.
        axis: what lies below it.
        specs: curves of training by slug.

    Raises:
        NotFoundError: when there is no such curve.
    """
    if curve in _HELD_OUT:
        return held_out_curve(numbers, _HELD_OUT[curve], axis)
    if curve == "pass-at-k":
        return pass_at_k_curve(numbers)
    if curve.startswith(_METRIC):
        return draw_curve(numbers, _spec_of(numbers, curve.removeprefix(_METRIC)), axis)
    spec = specs.get(curve) or _OF_RUN.get(curve) or _OVERLAID.get(curve)
    if spec is None:
        raise NotFoundError(f"there is no curve {curve!r}; the page of curves lists those that there are.")
    return draw_curve(numbers, spec, axis)


def drawn(named: Sequence[tuple[str, StatedNumbers]], curve: str, axis: AxisName) -> Figure:
    """A curve of one run, or of several over each other, each series led by its run's name."""
    if len(named) == 1:
        return figure(named[0][1].numbers, curve, axis)
    return overlay([(name, figure(one.numbers, curve, axis, _OVERLAID)) for name, one in named])


def entries_of(figure: Figure, numbers: RunNumbers) -> tuple[MetricEntry, ...]:
    """What the typed list says of each metric of a figure."""
    text = figure.provenance.made_by
    names = [line.name for line in numbers.metrics if f"'{line.name}'" in text]
    names += [row.metric for row in numbers.evaluations if f"'{row.metric}'" in text]
    entries = (metric_named(name) for name in dict.fromkeys(names))
    return tuple(entry for entry in entries if entry is not None)


def plotted(figure: Figure, revision: str) -> dict[str, object]:
    """A figure as the script draws it: one list of places, and for each series a value or nothing at each."""
    series = figure.series[:_MOST_SERIES]
    places = sorted({point.x for one in series for point in one.points})
    return {
        "revision": revision,
        "title": figure.title,
        "x": figure.x.title,
        "y": figure.y.title,
        "places": places,
        "series": [_plotted_series(one, places) for one in series],
        "marks": [{"x": mark.x, "text": mark.text} for mark in figure.marks],
        "note": figure.note,
        "thinned": figure.thinned,
        "left_out": len(figure.series) - len(series),
        "absent": figure.absent,
    }


def _plotted_series(series: Series, places: Sequence[float]) -> dict[str, object]:
    at = {point.x: point for point in series.points}
    points = [at.get(x) for x in places]
    is_ranged = any(point.low is not None for point in series.points)
    return {
        "name": series.name,
        "unit": series.unit,
        "interval": series.interval,
        "values": [None if p is None else p.value for p in points],
        "low": [None if p is None else p.low for p in points] if is_ranged else None,
        "high": [None if p is None else p.high for p in points] if is_ranged else None,
    }


def _spec_of(numbers: RunNumbers, name: str) -> CurveSpec:
    """Every series of one metric, the whole before its parts."""
    lines = sorted(
        (one for one in numbers.metrics if one.name == name), key=lambda one: (len(one.labels), str(one.labels))
    )
    entry = metric_named(name)
    if not lines:  # the figure says that there is nothing
        unit = entry.unit if entry is not None else ""
        return CurveSpec(slug="metric", title=name, y=Axis(name=name, unit=unit), lines=(LineSpec(metric=name),))
    return CurveSpec(
        slug="metric",
        title=name,
        y=Axis(name=name, unit=lines[0].unit),
        lines=tuple(
            LineSpec(metric=name, labels=one.labels, name=", ".join(f"{k} {v}" for k, v in one.labels.items()) or "all")
            for one in lines
        ),
        note=entry.note if entry is not None else "",
    )
