"""Tables of a run: held-out results, the ledger, what was retried or excluded and why, tools, gates and alarms."""

from collections.abc import Iterable

from rollwright.record import EvaluationRow
from rollwright.record.metrics import metric_named
from rollwright.viewer.curves_held_out import evaluation_provenance, protocols_of
from rollwright.viewer.figures import UNKNOWN, Cell, Table
from rollwright.viewer.figures_bars import tables_provenance
from rollwright.viewer.figures_run import EndCount, RunNumbers

__all__ = [
    "events_table",
    "excluded_table",
    "gates_table",
    "held_out_table",
    "ledger_table",
    "tools_table",
    "withheld_table",
]

_MOST_CAUSES = 40
"""Rows of a table of causes; the rest is one row."""


def held_out_table(numbers: RunNumbers) -> Table:
    """Every metric of the first and of the last evaluation by each protocol, by slice."""
    rows = [row for name, sha256 in protocols_of(numbers) for row in _first_and_last(numbers, name, sha256)]
    return Table(
        slug="held-out-results",
        title="Held-out results, first and last evaluation",
        columns=("protocol", "step", "metric", "of", "value", "low", "high", "unit", "interval", "tasks", "unscored"),
        rows=tuple(_result(row) for row in rows),
        provenance=evaluation_provenance(numbers, "success"),
        note="a metric whose interval is `none` has none, and is read with that in mind" if rows else "",
        absent="" if rows else "this run was not evaluated",
    )


def ledger_table(numbers: RunNumbers) -> Table:
    """Slots by source, state and rule; each slot is in one state, so they sum to what was dispatched."""
    total = sum(slot.count for slot in numbers.slots)
    counted: list[tuple[Cell, ...]] = [(slot.source, slot.state, slot.rule, slot.count) for slot in numbers.slots]
    stored = numbers.metrics
    last = [line for line in stored if line.name == "data/slots" and set(line.labels) == {"state"}]
    said = sum(slot.count for slot in numbers.slots if slot.state == "trained")
    by_metric = sum(int(value or 0) for line in last if line.labels["state"] == "trained" for value in line.values[-1:])
    is_balanced = not last or said == by_metric
    note = (
        f"{total:,} slots, each in one state; "
        + (f"{said:,} trained, as the metric data/slots says" if is_balanced else "")
        + ("" if is_balanced else f"{said:,} trained, but data/slots says {by_metric:,}: run `rollwright check`")
    )
    return Table(
        slug="ledger",
        title="Balance of the ledger",
        columns=("source", "state", "rule", "slots"),
        rows=(*counted, ("all", "all", "", total)) if counted else (),
        provenance=tables_provenance(
            numbers, "SELECT task_source, state, rule, count(*) FROM slots GROUP BY ALL ORDER BY ALL"
        ),
        note=note if counted else "",
        absent="" if counted else "nothing was dispatched: demonstrations have no ledger row",
    )


def excluded_table(numbers: RunNumbers) -> Table:
    """Attempts that failed, were not scored, or tried again, with their cause as it was stored."""
    found = sorted(
        (e for e in numbers.ends if e.purpose != "demonstration" and _is_excluded(e)), key=lambda e: -e.count
    )
    rows: list[tuple[Cell, ...]] = [
        (
            e.purpose,
            e.source,
            e.terminal_reason,
            e.failure_class or "none",
            e.unscored_reason or "scored",
            "yes" if e.is_retry else "no",
            e.failure_cause,
            e.count,
        )
        for e in found[:_MOST_CAUSES]
    ]
    rest = sum(e.count for e in found[_MOST_CAUSES:])
    if rest:
        rows.append(("all other", "", "", "", "", "", f"{len(found) - _MOST_CAUSES} further causes", rest))
    return Table(
        slug="excluded",
        title="What was retried or excluded, and why",
        columns=("purpose", "source", "ended", "failure", "unscored because", "a retry", "cause", "attempts"),
        rows=tuple(rows),
        provenance=tables_provenance(
            numbers,
            "SELECT purpose, task_source, terminal_reason, failure_class, failure_cause, unscored_reason, lineage, "
            "count(*) FROM trajectories WHERE failure_class IS NOT NULL OR unscored_reason IS NOT NULL OR "
            "lineage = 'retry_of' GROUP BY ALL",
        ),
        note="an error is not a reward: none of these became a reward of 0" if rows else "",
        absent="" if rows else "no attempt failed, went unscored or was tried again",
    )


def withheld_table(numbers: RunNumbers) -> Table:
    """What stood in a batch and got no gradient."""
    rows = tuple((one.component, one.reason, one.episodes, one.tokens) for one in numbers.withheld)
    return Table(
        slug="withheld",
        title="In a batch, without gradient",
        columns=("component", "reason", "episodes", "eligible tokens"),
        rows=rows,
        provenance=tables_provenance(
            numbers,
            "SELECT component, untrained_reason, count(DISTINCT trajectory_id), sum(num_eligible) FROM receipts "
            "WHERE untrained_reason IS NOT NULL GROUP BY ALL",
        ),
        absent="" if rows else "every segment of every batch was trained",
    )


def tools_table(numbers: RunNumbers) -> Table:
    """Calls by purpose, tool and how they came back."""
    rows = tuple(
        (tool.purpose, tool.tool or "(none named)", tool.status, tool.count, _rounded(tool.mean_latency_s * 1000))
        for tool in numbers.tools
    )
    return Table(
        slug="tools",
        title="Calls of tools",
        columns=("purpose", "tool", "status", "calls", "mean latency (ms)"),
        rows=rows,
        provenance=tables_provenance(
            numbers,
            "SELECT purpose, tool, status, count(*), avg(latency_s) FROM tool_calls JOIN trajectories USING "
            "(trajectory_id) GROUP BY ALL",
        ),
        absent="" if rows else "no tool was called",
    )


def gates_table(numbers: RunNumbers) -> Table:
    """Every verdict of a gate or an alarm, with the number beside its limit."""
    rows = tuple(
        (
            record.purpose,
            record.verdict.gate,
            record.what,
            record.step if record.first_step is None else f"{record.first_step} to {record.step}",
            record.verdict.outcome,
            str(record.verdict.measured),
            str(record.verdict.bound),
            record.label,
            record.limit_source,
            record.verdict.because,
            record.action,
        )
        for record in numbers.gates
    )
    return Table(
        slug="gates",
        title="Gates and alarms",
        columns=tuple("purpose|gate|what|step|verdict|measured|limit|label|limit from|because|did".split("|")),
        rows=rows,
        provenance=tables_provenance(numbers, "gates.json of the run, read by rollwright.evidence.gates:read_gates"),
        absent="" if rows else "no gate was judged and no alarm rose",
    )


def events_table(numbers: RunNumbers) -> Table:
    """What happened beside the numbers."""
    rows = tuple(
        (event.at.isoformat(timespec="seconds"), event.step, event.kind, event.text) for event in numbers.events[-200:]
    )
    left = len(numbers.events) - len(rows)
    return Table(
        slug="events",
        title="Events",
        columns=("at", "step", "kind", "what"),
        rows=rows,
        provenance=tables_provenance(numbers, "events.jsonl of the run"),
        note=f"the newest {len(rows)}; {left} older ones are in events.jsonl" if left else "",
        absent="" if rows else "none was recorded",
    )


def _is_excluded(end: EndCount) -> bool:
    return bool(end.failure_class or end.unscored_reason) or end.is_retry


def _first_and_last(numbers: RunNumbers, name: str, sha256: str) -> Iterable[EvaluationRow]:
    rows = [row for row in numbers.evaluations if (row.protocol, row.protocol_sha256) == (name, sha256)]
    ends = {min(row.step for row in rows), max(row.step for row in rows)}
    return (row for row in rows if row.step in ends)


def _result(row: EvaluationRow) -> tuple[Cell, ...]:
    entry = metric_named(row.metric)
    return (
        row.protocol,
        row.step,
        row.metric,
        ", ".join(f"{name} {text}" for name, text in sorted(row.labels.items())) or "all",
        _rounded(row.value),
        _rounded(row.low),
        _rounded(row.high),
        entry.unit if entry else UNKNOWN,
        f"{row.interval_method} at {row.level:.4g}" if row.low is not None else "none",
        row.num_tasks,
        row.num_unscored,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
