"""The numbers of one run, read once from its folder: what every curve, bar and table is made of."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rollwright.evidence import Checkpoint, Event, Manifest, RunFolder, connect, writer_of
from rollwright.evidence.gates import GateRecord, read_gates
from rollwright.evidence.views import Verification
from rollwright.record import EvaluationRow

if TYPE_CHECKING:
    import duckdb

__all__ = [
    "METRICS_SQL",
    "EndCount",
    "MetricLine",
    "RunNumbers",
    "SlotCount",
    "StepCost",
    "ToolCount",
    "WithheldCount",
    "label_order",
    "read_numbers",
]

METRICS_SQL = """WITH by_step AS (
  SELECT name, labels, step, any_value(unit) AS unit, sum(num_items) AS items, CASE
    WHEN name = 'is/max' OR labels['stat'] = 'max' THEN max(value)
    WHEN starts_with(name, 'mask/') THEN sum(value)
    WHEN sum(num_items) FILTER (value IS NOT NULL) > 0
      THEN sum(value * num_items) / sum(num_items) FILTER (value IS NOT NULL)
    ELSE avg(value) END AS value
  FROM metrics GROUP BY name, labels, step)
SELECT name, labels, any_value(unit), list(step ORDER BY step), list(value ORDER BY step), list(items ORDER BY step)
FROM by_step GROUP BY name, labels ORDER BY name, labels::TEXT"""
"""Each metric by step. Where a step has several updates: the largest of what is a maximum, the sum of what
is a count of masked tokens, and of all else the mean, each update counting by its items."""

_EVALUATIONS = "SELECT * EXCLUDE (run_id) FROM evaluations ORDER BY step, recorded_at, evaluation, metric, labels::TEXT"
_COSTS = """WITH sampled AS (
  SELECT trajectory_id, min(step) AS step FROM ledger WHERE trajectory_id IS NOT NULL GROUP BY ALL
  UNION ALL
  SELECT trajectory_id, min(step) FROM receipts JOIN trajectories USING (trajectory_id)
  WHERE purpose = 'demonstration' GROUP BY ALL)
SELECT step, count(*), sum(num_action_tokens) FROM sampled JOIN trajectories USING (trajectory_id)
GROUP BY step ORDER BY step"""
_STAGES = "SELECT step, min(stage) FROM receipts JOIN trajectories USING (trajectory_id) GROUP BY step ORDER BY step"
_SHARED = """SELECT count(*) FROM (SELECT task_id FROM trajectories WHERE purpose = 'evaluation' INTERSECT
  SELECT task_id FROM trajectories WHERE purpose IN ('train', 'demonstration'))"""
_SLOTS = "SELECT task_source, state, coalesce(rule, ''), count(*) FROM slots GROUP BY ALL ORDER BY ALL"
_ENDS = """SELECT purpose, task_source, terminal_reason, coalesce(failure_class, ''),
  left(coalesce(failure_cause, ''), 300), coalesce(unscored_reason, ''), lineage IS NOT DISTINCT FROM 'retry_of',
  count(*)
FROM trajectories GROUP BY ALL ORDER BY ALL"""
_TOOLS = """SELECT purpose, tool, status, count(*), avg(tool_calls.latency_s),
  CASE WHEN count(tool_calls.cost) = count(*) THEN sum(tool_calls.cost) END FROM tool_calls
JOIN trajectories USING (trajectory_id) GROUP BY ALL ORDER BY purpose, tool, status"""
_WITHHELD = """SELECT component, untrained_reason, count(DISTINCT trajectory_id), sum(num_eligible) FROM receipts
WHERE untrained_reason IS NOT NULL GROUP BY ALL ORDER BY ALL"""
_SECONDS = ("time/collect", "time/learn", "time/publish", "time/save")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricLine:
    """One metric with one set of labels, over the steps that have it."""

    name: str
    unit: str
    labels: Mapping[str, str]
    """Without `model` where that is the policy."""
    steps: tuple[int, ...]
    values: tuple[float | None, ...]
    num_items: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """What had been spent when a step was done, from the start of the run."""

    step: int
    episodes: int
    """Sampled for training, or shown as demonstrations; evaluations left out."""
    tokens: int
    """Action tokens of these."""
    seconds: float
    """Of the steps: waiting for batches, learning, publishing, saving; evaluations left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCount:
    """Slots of the ledger that ended alike."""

    source: str
    state: str
    rule: str
    """Empty where none decided."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCount:
    """Attempts at episodes that ended alike."""

    purpose: str
    source: str
    terminal_reason: str
    failure_class: str
    failure_cause: str
    """Its first 300 characters; it may be anything that a program said."""
    unscored_reason: str
    is_retry: bool
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCount:
    """Calls of one tool that came back alike."""

    purpose: str
    tool: str
    """What the policy asked for; empty where no tool was named."""
    status: str
    count: int
    mean_latency_s: float
    total_cost: float | None
    """None where a call has no price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WithheldCount:
    """What a batch held and no gradient used."""

    component: str
    reason: str
    episodes: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunNumbers:
    """One run as numbers."""

    path: Path
    name: str
    """Of its folder, or what tells it from the others of a report."""
    manifest: Manifest
    """Of its newest segment."""
    manifests: tuple[Manifest, ...]
    """Of all segments, in order."""
    configuration: Mapping[str, str]
    """Key to JSON."""
    metrics: tuple[MetricLine, ...]
    evaluations: tuple[EvaluationRow, ...]
    """Of each protocol, policy and step the first."""
    costs: tuple[StepCost, ...]
    """By step."""
    stages: Mapping[int, str]
    """Step to the stage that it trained."""
    slots: tuple[SlotCount, ...]
    ends: tuple[EndCount, ...]
    tools: tuple[ToolCount, ...]
    withheld: tuple[WithheldCount, ...]
    events: tuple[Event, ...]
    gates: tuple[GateRecord, ...]
    protocols: Mapping[str, Mapping[str, str]]
    """Digest of a protocol to what it is made of, each as JSON, where the run noted it."""
    shared_tasks: int
    """Tasks that were both trained on and held out; 0 where the split holds."""
    checkpoint: Checkpoint | None
    """The newest one of a commit of this run; its bytes are not compared here."""
    writer: str | None
    """Who writes the folder at this moment; None: nobody."""

    def line(self, name: str, **labels: str) -> MetricLine | None:
        """The metric with exactly these labels."""
        return next((one for one in self.metrics if one.name == name and one.labels == labels), None)

    def lines(self, name: str, label: str) -> tuple[MetricLine, ...]:
        """The metric by one label, and by nothing else; numbers in their order."""
        found = [one for one in self.metrics if one.name == name and set(one.labels) == {label}]
        return tuple(sorted(found, key=lambda one: label_order(one.labels[label])))

    def cost_at(self, step: int) -> StepCost:
        """What had been spent when a step was done; step 0 is the start."""
        before = [cost for cost in self.costs if cost.step <= step]
        return before[-1] if before else StepCost(step=0, episodes=0, tokens=0, seconds=0.0)

    @property
    def last_step(self) -> int:
        """The newest step with a number; 0 before the first."""
        return max((line.steps[-1] for line in self.metrics), default=0)


def label_order(text: str) -> tuple[float, str]:
    """Where the value of a label stands among others: numbers by size, then words."""
    try:
        return float(text), text
    except ValueError:
        return math.inf, text


def read_numbers(path: Path, *, verification: Verification = "digests") -> RunNumbers:
    """Read a run folder; it may be being written.

    Args:
        path: a run folder.
        verification: how committed files are compared first: by digest, or by size for a live view.

    Raises:
        EvidenceError: where the folder is no run, of another schema, or damaged.
    """
    folder = RunFolder.open(path)
    with connect(path, verification=verification) as connection:
        metrics = _metrics(connection)
        evaluations = _evaluations(connection)
        costs = _costs(connection, metrics)
        stages = {step: stage for step, stage in _rows(connection, _STAGES)}
        slots = tuple(SlotCount(source=a, state=b, rule=c, count=n) for a, b, c, n in _rows(connection, _SLOTS))
        ends = _ends(connection)
        tools = _tools(connection)
        withheld = _withheld(connection)
        ((shared,),) = _rows(connection, _SHARED)
    return RunNumbers(
        path=path,
        name=path.resolve().name,
        manifest=folder.manifest,
        manifests=folder.manifests,
        configuration={value.key: value.value for value in folder.manifest.configuration},
        metrics=metrics,
        evaluations=evaluations,
        costs=costs,
        stages=stages,
        slots=slots,
        ends=ends,
        tools=tools,
        withheld=withheld,
        events=folder.events(),
        protocols=_protocols(folder.events()),
        shared_tasks=shared,
        checkpoint=max((c for c in folder.checkpoints() if isinstance(c, Checkpoint)), key=_step_of, default=None),
        gates=read_gates(path),
        writer=writer_of(path),
    )


def _metrics(connection: "duckdb.DuckDBPyConnection") -> tuple[MetricLine, ...]:
    return tuple(
        MetricLine(
            name=name,
            unit=unit,
            labels={key: text for key, text in labels.items() if (key, text) != ("model", "policy")},
            steps=tuple(steps),
            values=tuple(values),
            num_items=tuple(items),
        )
        for name, labels, unit, steps, values, items in _rows(connection, METRICS_SQL)
    )


def _evaluations(connection: "duckdb.DuckDBPyConnection") -> tuple[EvaluationRow, ...]:
    columns = [str(column[0]) for column in connection.execute(f"DESCRIBE {_EVALUATIONS}").fetchall()]
    first: dict[tuple[object, ...], EvaluationRow] = {}
    for found in _rows(connection, _EVALUATIONS):
        row = EvaluationRow(**dict(zip(columns, found, strict=True)))
        key = (row.protocol_sha256, row.policy, row.step, row.metric, tuple(sorted(row.labels.items())))
        first.setdefault(key, row)
    return tuple(first.values())


def _costs(connection: "duckdb.DuckDBPyConnection", metrics: Sequence[MetricLine]) -> tuple[StepCost, ...]:
    seconds: dict[int, float] = {}
    for line in metrics:
        if line.name in _SECONDS:
            for step, value in zip(line.steps, line.values, strict=True):
                seconds[step] = seconds.get(step, 0.0) + (value or 0.0)
    sampled = {step: (episodes, tokens) for step, episodes, tokens in _rows(connection, _COSTS)}
    steps = sorted({*seconds, *sampled})
    episodes = accumulate(sampled[step][0] if step in sampled else 0 for step in steps)
    tokens = accumulate(int(sampled[step][1]) if step in sampled else 0 for step in steps)
    clock = accumulate(seconds.get(step, 0.0) for step in steps)
    return tuple(
        StepCost(step=step, episodes=count, tokens=spent, seconds=passed)
        for step, count, spent, passed in zip(steps, episodes, tokens, clock, strict=True)
    )


def _ends(connection: "duckdb.DuckDBPyConnection") -> tuple[EndCount, ...]:
    return tuple(
        EndCount(
            purpose=purpose,
            source=source,
            terminal_reason=reason,
            failure_class=kind,
            failure_cause=cause,
            unscored_reason=unscored,
            is_retry=retry,
            count=count,
        )
        for purpose, source, reason, kind, cause, unscored, retry, count in _rows(connection, _ENDS)
    )


def _tools(connection: "duckdb.DuckDBPyConnection") -> tuple[ToolCount, ...]:
    return tuple(
        ToolCount(purpose=purpose, tool=tool, status=status, count=count, mean_latency_s=seconds, total_cost=cost)
        for purpose, tool, status, count, seconds, cost in _rows(connection, _TOOLS)
    )


def _withheld(connection: "duckdb.DuckDBPyConnection") -> tuple[WithheldCount, ...]:
    return tuple(
        WithheldCount(component=component, reason=reason, episodes=episodes, tokens=int(tokens))
        for component, reason, episodes, tokens in _rows(connection, _WITHHELD)
    )


def _protocols(events: Sequence[Event]) -> dict[str, Mapping[str, str]]:
    noted = [event.fields for event in events if event.kind == "protocol"]
    return {fields["sha256"]: json.loads(fields["facts"]) for fields in noted}


def _step_of(checkpoint: Checkpoint) -> int:
    return checkpoint.step


def _rows(connection: "duckdb.DuckDBPyConnection", sql: str) -> list[tuple[Any, ...]]:
    return connection.execute(sql).fetchall()
