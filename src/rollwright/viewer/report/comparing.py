"""The report of several runs: their manifests' differences first, curves over each other, pairs by task, seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from rollwright.evidence import manifest_differences
from rollwright.statistics import (
    Interval,
    crossed_bootstrap_interval,
    nested_bootstrap_interval,
    paired_t_interval,
    wilson_interval,
)
from rollwright.viewer.curves import AXES, AxisName, draw_curve, merged_provenance, overlay
from rollwright.viewer.curves_held_out import evaluation_provenance, held_out_curve
from rollwright.viewer.curves_training import HEADLINES
from rollwright.viewer.figures import Axis, Cell, Figure, Point, Provenance, Series, Table
from rollwright.viewer.figures_bars import tables_provenance
from rollwright.viewer.figures_run import RunNumbers
from rollwright.viewer.figures_tasks import TaskScores, shared_tasks

__all__ = [
    "Arm",
    "MeasuredRun",
    "arm_curve",
    "arms_of",
    "differences_table",
    "overlays",
    "pairs_table",
]

_OF_A_SEED = ("configuration.run.seed", "configuration.run.name", "configuration.run.title", "seeds.")
"""Fields in which two runs of one arm may differ, by how they begin."""
_FOLLOWS_FROM_A_SEED = (
    "data.prompt_sources.",
    "digests.",
    "environment.tool_schema_revision",
    "evaluation.protocol_sha256",
    "model.initial_weights_sha256",
    "model.tokenizer_revision",
    "run.config_sha256",
)
"""Digests of what a seed makes: tasks, first weights, a tokenizer trained on the tasks."""
_TRAINS_NOTHING = ("configuration.gates.", "configuration.alarms.", "configuration.exporters")
"""What is judged, watched and told of a run."""
_AXES: tuple[AxisName, ...] = ("step", "episodes", "tokens", "seconds", "sqrt_kl")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredRun:
    """One run with the scores of its held-out tasks."""

    numbers: RunNumbers
    scores: tuple[TaskScores, ...]
    """By step."""

    @property
    def own_scores(self) -> tuple[TaskScores, ...]:
        """Of the protocol that the manifest names, by step."""
        own = self.numbers.manifest.evaluation.protocol_sha256
        return tuple(one for one in self.scores if one.protocol_sha256 == own)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Arm:
    """Runs that differ in nothing but the seed."""

    name: str
    runs: tuple[MeasuredRun, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Distinct seeds, in order."""
        return tuple(sorted({run.numbers.manifest.seeds.get("run", 0) for run in self.runs}))


def arms_of(runs: Sequence[MeasuredRun]) -> tuple[Arm, ...]:
    """The runs by arm, in the order given; two runs of one seed are two runs of an arm, and one seed."""
    found: list[list[MeasuredRun]] = []
    for run in runs:
        same = next((arm for arm in found if _is_same_arm(arm[0].numbers, run.numbers)), None)
        if same is None:
            found.append([run])
        else:
            same.append(run)
    return tuple(Arm(name=_arm_name(arm), runs=tuple(arm)) for arm in found)


def differences_table(runs: Sequence[MeasuredRun]) -> Table:
    """Fields in which the manifests of the runs differ from that of the first."""
    first = runs[0].numbers
    rows: list[tuple[Cell, ...]] = [
        (run.numbers.name, d.path, d.stored, d.now)
        for run in runs[1:]
        for d in manifest_differences(first.manifest, run.numbers.manifest)
    ]
    return Table(
        slug="manifest-differences",
        title=f"Where the manifests differ from that of {first.name}",
        columns=("run", "field", first.name, "this run"),
        rows=tuple(rows),
        provenance=tables_provenance(first, "rollwright.evidence:manifest_differences of the newest segments"),
        note="identity, times and the size of the machine are not compared",
        absent="" if rows else "nowhere: the runs differ in identity and time alone",
    )


def overlays(runs: Sequence[MeasuredRun]) -> tuple[Figure, ...]:
    """Held-out curves over each axis, and the headlines of training, one line a run."""
    named = [(run.numbers.name, run.numbers) for run in runs]
    held_out = [
        overlay([(name, held_out_curve(numbers, "success", axis)) for name, numbers in named]) for axis in _AXES
    ]
    return (
        *(curve for curve in held_out if curve.series or curve.x == AXES["step"]),
        *(overlay([(name, draw_curve(numbers, spec)) for name, numbers in named]) for spec in HEADLINES),
    )


def pairs_table(runs: Sequence[MeasuredRun]) -> Table:
    """Last evaluations of each two runs on the tasks of both, paired by task."""
    rows: list[tuple[Cell, ...]] = []
    unpaired: list[str] = []
    for one, other in combinations(runs, 2):
        pair = _last_shared(one, other)
        names = f"{other.numbers.name} and {one.numbers.name}"
        tasks = shared_tasks(pair)
        if len(tasks) < 2:
            unpaired.append(f"{names}: no two tasks that one protocol measured in both")
            continue
        deltas = pair[1].means(tasks) - pair[0].means(tasks)
        bounds = _paired(deltas)
        rows.append(
            (
                other.numbers.name,
                one.numbers.name,
                pair[0].protocol,
                f"{pair[1].step} and {pair[0].step}",
                float(f"{deltas.mean():.4g}"),
                float(f"{bounds.low:.4g}"),
                float(f"{bounds.high:.4g}"),
                f"{bounds.method} at {bounds.level:g}",
                len(tasks),
            )
        )
    provenance = merged_provenance([evaluation_provenance(run.numbers, "success") for run in runs])
    return Table(
        slug="pairs",
        title="Last evaluations, paired by task",
        columns=("run", "minus run", "protocol", "steps", "difference", "low", "high", "interval", "tasks"),
        rows=tuple(rows),
        provenance=_computed(
            provenance,
            "success of each task in the last evaluation of both runs by one protocol, first minus second: "
            "rollwright.statistics:paired_t_interval; where all tasks differ alike, Wilson's bound on the others",
        ),
        note=". ".join([*unpaired, "two runs say nothing of another seed"]),
        absent="" if rows else "no two runs were measured on the same tasks by one protocol",
    )


def arm_curve(arm: Arm, place: int) -> Figure:
    """Mean of the seeds at each evaluated step that all have, with an interval over seeds and tasks.

    Args:
        arm: two runs or more.
        place: of the arm in its report, from 1; names the figure.
    """
    points = [_arm_point(arm, step) for step in _shared_steps(arm)]
    methods = {method for _, method in points}
    series = Series(
        name=f"mean of {len(arm.runs)} runs", unit="fraction", points=tuple(p for p, _ in points),
        interval=", ".join(sorted(methods)),
    )  # fmt: skip
    provenance = merged_provenance([evaluation_provenance(run.numbers, "success") for run in arm.runs])
    return Figure(
        slug=f"arm-{place}",
        title=f"Held-out success of {arm.name}",
        x=Axis(name="step", unit=""),
        y=Axis(name="held-out success", unit="fraction"),
        series=(series,) if points else (),
        provenance=_computed(
            provenance,
            "mean over runs of the mean over tasks: rollwright.statistics:crossed_bootstrap_interval where all runs "
            "have the tasks, nested_bootstrap_interval where each has its own; seed 0, 2,000 resamples, level 0.95",
            interval=series.interval,
        ),
        note=f"seeds {', '.join(map(str, arm.seeds))}"
        + ("" if len(arm.seeds) >= 3 else "; fewer than 3 seeds: an interval over them says little"),
        absent="" if points else "no step was evaluated by one protocol in all of its runs",
    )


def mean_over_runs(scores: Sequence[TaskScores]) -> tuple[float, Interval | None]:
    """Mean over runs of the mean over tasks; crossed with the tasks where all have the same, else nested in them."""
    tasks = shared_tasks(scores)
    if tasks and all(len(one.success) == len(tasks) for one in scores):
        means = np.array([one.means(tasks) for one in scores])
        return float(means.mean()), crossed_bootstrap_interval(means, seed=0, resamples=2000)
    own = [one.means(sorted(one.success)) for one in scores]
    return float(np.mean([one.mean() for one in own])), nested_bootstrap_interval(own, seed=0, resamples=2000)


def follows_from_a_seed(path: str) -> bool:
    """True for a field of a manifest that a seed decides: itself, and digests of what it makes."""
    return path.startswith((*_OF_A_SEED, *_FOLLOWS_FROM_A_SEED))


def trains_nothing(path: str) -> bool:
    """True for a field of a manifest that says how a run is watched, judged and told of, and moves no weight."""
    return path.startswith(_TRAINS_NOTHING)


def _is_same_arm(one: RunNumbers, other: RunNumbers) -> bool:
    paths = [d.path for d in manifest_differences(one.manifest, other.manifest)]
    if "seeds.run" in paths:
        return all(follows_from_a_seed(path) for path in paths)
    return all(path.startswith(_OF_A_SEED) for path in paths)


def _arm_name(runs: Sequence[MeasuredRun]) -> str:
    names = [run.numbers.name for run in runs]
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]} ({len(names)} runs that differ in the seed)"


def _last_shared(one: MeasuredRun, other: MeasuredRun) -> tuple[TaskScores, ...]:
    own = one.numbers.manifest.evaluation.protocol_sha256
    shared = {s.protocol_sha256 for s in one.scores} & {s.protocol_sha256 for s in other.scores}
    for sha256 in sorted(shared, key=lambda name: (name != own, name)):
        first = [scores for scores in one.scores if scores.protocol_sha256 == sha256]
        second = [scores for scores in other.scores if scores.protocol_sha256 == sha256]
        return first[-1], second[-1]
    return ()


def _paired(deltas: NDArray[np.float64]) -> Interval:
    bounds = paired_t_interval(deltas)
    if bounds is not None:
        return bounds
    others = wilson_interval(0, len(deltas)).high  # the share of tasks that may differ otherwise, by -1 to 1
    center = (1.0 - others) * float(deltas.mean())
    return Interval(low=center - others, high=center + others, level=0.95, method="wilson")


def _shared_steps(arm: Arm) -> list[int]:
    steps = [{scores.step for scores in run.own_scores} for run in arm.runs]
    return sorted(set[int].intersection(*steps)) if steps else []


def _arm_point(arm: Arm, step: int) -> tuple[Point, str]:
    scores = [next(s for s in run.own_scores if s.step == step) for run in arm.runs]
    value, bounds = mean_over_runs(scores)
    low, high = (None, None) if bounds is None else (bounds.low, bounds.high)
    point = Point(step=step, x=float(step), value=value, low=low, high=high, num_items=len(scores[0].success))
    return point, "none" if bounds is None else f"{bounds.method} at {bounds.level:g}"


def _computed(provenance: Provenance, made_by: str, interval: str | None = None) -> Provenance:
    return replace(provenance, made_by=made_by, interval=provenance.interval if interval is None else interval)
