"""Run folders for reports: evaluated before and after some steps, with tools, gates, costs and a price on each call."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rollwright.evidence import CommitRows, ConfigValue, RunFolder
from rollwright.evidence.gates import GateRecord, record_gates
from rollwright.record import EvaluationRow, Metric, ScoredTrajectory
from rollwright.record.gates import Bound, GateVerdict, Measured, Outcome
from rollwright.viewer.figures_run import MetricLine
from rollwright.viewer.report import read_runs
from rollwright.viewer.report.comparing import MeasuredRun
from tests.evidence.runs import (
    NUM_ACTION_TOKENS,
    START,
    ledger_row,
    manifest,
    metric,
    receipts,
    scored_trajectory,
)

PROTOCOL = "0" * 64
FIRST_HELD_OUT = 900


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What a run is like; the defaults license that training improved, where three seeds are alike."""

    seed: int = 0
    steps: int = 2
    first: Sequence[bool] = (True,) * 2 + (False,) * 10
    """Held-out outcome of each task before, one attempt each."""
    last: Sequence[bool] = (True,) * 11 + (False,)
    gold: tuple[float, float] | None = (0.2, 0.9)
    """Success by a second verifier, before and after."""
    gates: Mapping[str, Outcome] = field(
        default_factory=lambda: {"last of entropy/full": "passed", "max of len/response": "passed"}
    )
    step_s: float = 2.0
    tool_cost: float | None = 0.0
    tool: str = "calculator"
    result: str = "2"
    source: str = "arithmetic"
    checkpoint: bool = True


def written(path: Path, shape: Shape) -> Path:
    """A run of that shape at `path`."""
    made = manifest(
        run_id=path.name,
        seeds={"run": shape.seed},
        configuration=_configuration(shape),
    )
    with RunFolder.create(path, made, "[run]\n") as folder:
        commit = folder.commit(_step(shape, 0), at=START)
        for step in range(1, shape.steps + 1):
            commit = folder.commit(_step(shape, step), at=START + timedelta(seconds=step))
        if shape.checkpoint:
            with folder.writing_checkpoint(commit) as place:
                (place / "weights.bin").write_bytes(b"weights of seed %d" % shape.seed)
        record_gates(path, [_gate(what, outcome, shape.steps) for what, outcome in shape.gates.items()])
    return path


def read_one(folder: Path, name: str, shape: Shape) -> MeasuredRun:
    """A run of that shape, written and read."""
    [run] = read_runs([written(folder / name, shape)])
    return run


def three_seeds(run: MeasuredRun) -> list[MeasuredRun]:
    """The record of one run as that of three which differ in the seed alone."""
    return [_with_seed(run, seed) for seed in range(3)]


def changed(run: MeasuredRun, /, **fields: object) -> MeasuredRun:
    """With other numbers."""
    return dataclasses.replace(run, numbers=dataclasses.replace(run.numbers, **fields))  # type: ignore[arg-type] - chosen by the test


def of_manifest(run: MeasuredRun, /, **sections: object) -> MeasuredRun:
    """With other sections of its manifest."""
    made = dataclasses.replace(run.numbers.manifest, **sections)  # type: ignore[arg-type] - chosen by the test
    values = {value.key: value.value for value in made.configuration}
    return changed(run, manifest=made, manifests=(made,), configuration=values)


def configured(run: MeasuredRun, values: Mapping[str, object], origin: str = "preset made") -> MeasuredRun:
    """With these values in its configuration."""
    kept = [value for value in run.numbers.manifest.configuration if value.key not in values]
    new = [ConfigValue(key=key, value=json.dumps(value), origin=origin) for key, value in values.items()]
    return of_manifest(run, configuration=(*kept, *new))


def gated(run: MeasuredRun, outcomes: Mapping[str, Outcome]) -> MeasuredRun:
    """With these gates and no others."""
    return changed(run, gates=tuple(_gate(what, outcome, run.numbers.last_step) for what, outcome in outcomes.items()))


def scored(run: MeasuredRun, first: Sequence[bool], last: Sequence[bool]) -> MeasuredRun:
    """With these held-out outcomes, task by task."""
    scores = [
        dataclasses.replace(one, success={task: float(outcomes[at]) for at, task in enumerate(sorted(one.success))})
        for one, outcomes in zip(run.scores, (first, last), strict=True)
    ]
    return dataclasses.replace(run, scores=tuple(scores))


def evaluated(run: MeasuredRun, *rows: EvaluationRow, drop: str = "") -> MeasuredRun:
    """With more rows of evaluations, and without those of a metric."""
    kept = tuple(row for row in run.numbers.evaluations if not drop or not row.metric.startswith(drop))
    return changed(run, evaluations=(*kept, *rows))


def measured(run: MeasuredRun, name: str, value: float, **labels: str) -> MeasuredRun:
    """With another value of a metric at every step."""
    steps = tuple(range(1, run.numbers.last_step + 1))
    line = MetricLine(
        name=name, unit="1", labels=labels, steps=steps, values=(value,) * len(steps), num_items=(1,) * len(steps)
    )
    kept = tuple(one for one in run.numbers.metrics if (one.name, one.labels) != (name, labels))
    return changed(run, metrics=(*kept, line))


def timed(run: MeasuredRun, step_s: float) -> MeasuredRun:
    """With steps of that many seconds."""
    costs = tuple(dataclasses.replace(cost, seconds=step_s * cost.step) for cost in run.numbers.costs)
    return changed(run, costs=costs)


def _with_seed(run: MeasuredRun, seed: int) -> MeasuredRun:
    made, name = run.numbers.manifest, f"{run.numbers.name}{seed}"
    values = tuple(
        dataclasses.replace(v, value=json.dumps(seed)) if v.key == "run.seed" else v for v in made.configuration
    )
    section = dataclasses.replace(made.run, run_id=name)
    return changed(of_manifest(run, run=section, seeds={"run": seed}, configuration=values), name=name)


def evaluation_rows(step: int, metric_name: str, value: float, half: float = 0.05, **labels: str) -> EvaluationRow:
    """One row of an evaluation, with an interval of ± `half`."""
    return EvaluationRow(
        evaluation=f"held-out@{step}",
        protocol="held-out",
        protocol_sha256=PROTOCOL,
        policy="policy",
        policy_version=step,
        step=step,
        metric=metric_name,
        value=value,
        low=value - half,
        high=value + half,
        level=0.95,
        interval_method="clustered_normal",
        labels=labels,
        num_tasks=12,
        num_trajectories=12,
        num_unscored=0,
        recorded_at=START,
    )


def _configuration(shape: Shape) -> tuple[ConfigValue, ...]:
    values: dict[str, object] = {
        "run.name": "made",
        "run.seed": shape.seed,
        "runtime.max_lag": 0,
        "environment.tools": ["calculator"],
        "objective.kind": "grpo",
        "verifier.success_threshold": 1.0,
    }
    return tuple(ConfigValue(key=key, value=json.dumps(v), origin="preset made") for key, v in values.items())


def _step(shape: Shape, step: int) -> CommitRows:
    trained = [] if step == 0 else _trained(shape, step)
    is_last = step == shape.steps
    evaluated = _evaluated(shape, step) if step == 0 or is_last else []
    weight = 1 / (NUM_ACTION_TOKENS * max(1, len(trained)))
    return CommitRows(
        kind="step",
        step=step,
        trajectories=[*trained, *evaluated],
        receipts=[r for i, m in enumerate(trained) for r in receipts(m, step=step, weight=weight, row=i)],
        ledger=[ledger_row(m, state, step=step) for state in ("in_flight", "ready", "trained") for m in trained],
        metrics=_metrics(shape, step) if step else [],
        evaluations=_rows(shape, step) if evaluated else [],
    )


def _trained(shape: Shape, step: int) -> list[ScoredTrajectory]:
    made = [
        scored_trajectory(group_id=2 * step + group, slot=slot, version=step - 1, outcome=float(slot == 0))
        for group in range(2)
        for slot in range(2)
    ]
    return [_dressed(one, shape) for one in made]


def _evaluated(shape: Shape, step: int) -> list[ScoredTrajectory]:
    outcomes = shape.first if step == 0 else shape.last
    slot = 0 if step == 0 else 1
    return [
        _dressed(
            scored_trajectory(
                group_id=FIRST_HELD_OUT + place, slot=slot, purpose="evaluation", version=step, outcome=float(is_right)
            ),
            shape,
        )
        for place, is_right in enumerate(outcomes)
    ]


def _dressed(scored: ScoredTrajectory, shape: Shape) -> ScoredTrajectory:
    """With the tool, the price, the result and the source of the shape."""
    [call] = scored.trajectory.tool_calls
    named = dataclasses.replace(
        call, tool=shape.tool, cost=shape.tool_cost, result=shape.result, result_bytes=len(shape.result.encode())
    )
    task = dataclasses.replace(scored.trajectory.task, source=shape.source)
    if shape.source != scored.trajectory.task.source:
        task = dataclasses.replace(task, task_id=scored.trajectory.task.task_id)
    return dataclasses.replace(
        scored, trajectory=dataclasses.replace(scored.trajectory, tool_calls=(named,), task=task)
    )


def _metrics(shape: Shape, step: int) -> list[Metric]:
    weighed = {"model": "policy", "component": "policy_gradient"}
    tokens = float(NUM_ACTION_TOKENS * 4)
    return [
        metric("weight_sum", 1.0, step=step, update=step, **weighed),
        metric("denominator", tokens, step=step, update=step, unit="count", **weighed),
        metric("policy/loss", 0.1, step=step, update=step, unit="reward", **weighed),
        metric("mask/observation_grad", 0.0, step=step, unit="count", model="policy"),
        metric("reward/total", step / 10, step=step, unit="reward"),
        metric("time/collect", shape.step_s, step=step, unit="s"),
        metric("sys/tokens_s", 100.0 * step, step=step, unit="tokens/s"),
        metric("len/response", 5.0, step=step, unit="tokens", quantile="0.5"),
        metric("stale/lag_hist", tokens, step=step, unit="tokens", lag="0", model="policy"),
    ]


def _rows(shape: Shape, step: int) -> list[EvaluationRow]:
    outcomes = shape.first if step == 0 else shape.last
    place = 0 if step == 0 else 1
    rows = [evaluation_rows(step, "success", sum(outcomes) / len(outcomes))]
    if shape.gold is not None:
        rows.append(evaluation_rows(step, "gold_success", shape.gold[place], verifier="exact"))
        rows.append(evaluation_rows(step, "gold_disagreement", 0.0, verifier="exact"))
    return rows


def _gate(what: str, outcome: Outcome, step: int) -> GateRecord:
    return GateRecord(
        at=START,
        step=step,
        purpose="run",
        what=what,
        verdict=GateVerdict(
            gate=f"gate on {what}",
            outcome=outcome,
            bound=Bound(side="at_most", limit=1.0),
            measured=Measured(value=0.5, num_items=4, source="the table metrics"),
            because="0.5 is at most 1",
        ),
        label="I",
        limit_source="chosen before the run",
    )
