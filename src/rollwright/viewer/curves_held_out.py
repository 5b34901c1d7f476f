"""Curves of held-out evaluations, each point with its interval, over steps and over what the steps cost."""

from collections.abc import Callable, Sequence

from rollwright.record import EvaluationRow
from rollwright.record.metrics import metric_named
from rollwright.viewer.curves import AXES, AxisName, gates_on, last_measured_kl, place_of, stage_marks
from rollwright.viewer.figures import UNKNOWN, Axis, Figure, Point, Provenance, Series
from rollwright.viewer.figures_run import RunNumbers

__all__ = ["evaluation_provenance", "held_out_curve", "pass_at_k_curve", "protocols_of"]

_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "processors", "seed")
_BUDGETS = ("max_turns", "max_turn_tokens", "max_episode_tokens", "max_calls")


def protocols_of(numbers: RunNumbers) -> tuple[tuple[str, str], ...]:
    """Name and digest of each protocol that the run was measured by; that of the manifest first."""
    own = numbers.manifest.evaluation.protocol_sha256
    found = {(row.protocol, row.protocol_sha256) for row in numbers.evaluations}
    return tuple(sorted(found, key=lambda pair: (pair[1] != own, pair)))


def held_out_curve(numbers: RunNumbers, metric: str = "success", axis: AxisName = "step") -> Figure:
    """One metric of all protocols, one line each."""
    place = last_measured_kl(numbers) if axis == "sqrt_kl" else place_of(numbers, axis)
    protocols = protocols_of(numbers)
    series = [
        _series(rows, name if len(protocols) > 1 else metric, place)
        for name, sha256 in protocols
        if (rows := _rows(numbers, metric, sha256, {}))
    ]
    drawn = tuple(one for one in series if any(point.value is not None for point in one.points))
    entry = metric_named(metric)
    return Figure(
        slug=f"held-out-{metric}-over-{axis}".replace("_", "-"),
        title=f"Held-out {metric.replace('_', ' ')} over {AXES[axis].name}",
        x=AXES[axis],
        y=Axis(name=f"held-out {metric.replace('_', ' ')}", unit=entry.unit if entry else UNKNOWN),
        series=drawn,
        provenance=evaluation_provenance(numbers, metric),
        marks=stage_marks(numbers, place) if axis != "sqrt_kl" else (),
        note=_note(axis),
        absent="" if drawn else _absent(numbers, axis),
    )


def pass_at_k_curve(numbers: RunNumbers) -> Figure:
    """pass@k beside pass@1 by the protocol of the manifest, or else the first: never one under the other's name."""
    protocols = protocols_of(numbers)
    place = place_of(numbers, "step")
    found = {row.labels["k"] for row in numbers.evaluations if row.metric == "pass_at_k" and set(row.labels) == {"k"}}
    series = tuple(
        _series(rows, f"pass@{k}", place)
        for k in sorted(found, key=int)
        if (rows := _rows(numbers, "pass_at_k", protocols[0][1], {"k": k}))
    )
    return Figure(
        slug="pass-at-k",
        title="pass@k beside pass@1",
        x=AXES["step"],
        y=Axis(name="pass@k", unit="fraction"),
        series=series,
        provenance=evaluation_provenance(numbers, "pass_at_k"),
        marks=stage_marks(numbers, place),
        note="pass@1 up while a larger k falls: the policy sharpens what it could do already",
        absent="" if series else "no evaluation has pass@k",
    )


def evaluation_provenance(numbers: RunNumbers, metric: str) -> Provenance:
    """Where numbers of one metric of the table `evaluations` come from; what several protocols differ in says so."""
    rows = [row for row in numbers.evaluations if row.metric == metric]
    protocols = [pair for pair in protocols_of(numbers) if any(row.protocol_sha256 == pair[1] for row in rows)]
    section = numbers.manifest.evaluation
    is_own = [sha256 for _, sha256 in protocols] == [section.protocol_sha256]
    return Provenance(
        made_by=f"SELECT step, value, low, high FROM evaluations WHERE metric = '{metric}' ORDER BY step. "
        + (f"Aggregation: {section.aggregation}" if is_own else "Aggregation: unknown to the manifest"),
        protocol=_joined([name for name, _ in protocols]),
        protocol_sha256=_joined([sha256 for _, sha256 in protocols]),
        tasks=_joined([str(row.num_tasks) for row in rows if "slice" not in row.labels]),
        samples=_joined([_samples(numbers, row) for row in rows]),
        sampling=_joined([_facts(numbers, sha256, _SAMPLING) for _, sha256 in protocols]),
        budgets=_joined([_facts(numbers, sha256, _BUDGETS) for _, sha256 in protocols]),
        interval=_joined([f"{row.interval_method} at {row.level:.4g}" for row in rows if row.low is not None]),
        steps=_joined([str(row.step) for row in rows]),
        gate=gates_on(numbers, [metric]),
    )


def _rows(numbers: RunNumbers, metric: str, sha256: str, labels: dict[str, str]) -> list[EvaluationRow]:
    return [
        row
        for row in numbers.evaluations
        if row.metric == metric and row.protocol_sha256 == sha256 and row.labels == labels
    ]


def _series(rows: Sequence[EvaluationRow], name: str, place: Callable[[int], float | None]) -> Series:
    points = [
        Point(step=row.step, x=x, value=row.value, low=row.low, high=row.high, num_items=row.num_tasks)
        for row in rows
        if (x := place(row.step)) is not None
    ]
    methods = dict.fromkeys(f"{row.interval_method} at {row.level:.4g}" for row in rows if row.low is not None)
    unit = metric_named(rows[0].metric)
    return Series(
        name=name,
        unit=unit.unit if unit else UNKNOWN,
        labels=rows[0].labels,
        points=tuple(sorted(points, key=lambda point: (point.x, point.step))),
        interval=", ".join(methods),
    )


def _samples(numbers: RunNumbers, row: EvaluationRow) -> str:
    noted = numbers.protocols.get(row.protocol_sha256, {}).get("samples")
    return noted or (
        str(numbers.manifest.evaluation.sample_count) if _is_own(numbers, row.protocol_sha256) else UNKNOWN
    )


def _facts(numbers: RunNumbers, sha256: str, names: Sequence[str]) -> str:
    """What a protocol holds fixed: as the run noted it, or as its manifest says of its own; else unknown."""
    noted = numbers.protocols.get(sha256)
    if noted is not None:
        return ", ".join(f"{name} {noted[name]}" for name in names if name in noted) or UNKNOWN
    if not _is_own(numbers, sha256):
        return UNKNOWN
    if names is _BUDGETS:
        return ", ".join(f"{name} {value:g}" for name, value in numbers.manifest.evaluation.budgets.items()) or UNKNOWN
    values = numbers.configuration
    return ", ".join(f"{n} {values[f'evaluation.{n}']}" for n in names if f"evaluation.{n}" in values) or UNKNOWN


def _is_own(numbers: RunNumbers, sha256: str) -> bool:
    return sha256 == numbers.manifest.evaluation.protocol_sha256


def _joined(texts: Sequence[str]) -> str:
    return ", ".join(dict.fromkeys(texts)) or "none"


def _note(axis: AxisName) -> str:
    if axis == "sqrt_kl":
        return "the KL is the newest that was measured at or before the evaluated step, in the same stage"
    return "the band is the interval of each evaluation; between two evaluations nothing was measured"


def _absent(numbers: RunNumbers, axis: AxisName) -> str:
    if not numbers.evaluations:
        return "this run was not evaluated"
    if axis == "sqrt_kl":
        return "no step that was evaluated has policy/kl_ref: no reference was scored"
    return "no evaluation has it"
