"""The tables of a run folder, column by column: names, types, nullability, keys, and what was measured.

What is *measured* (timestamps, durations, metrics of time, rate or memory) differs between two runs that are otherwise
equal, so the content hash leaves it out. What must be *finite* is checked before a row is stored.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = [
    "BIGINT",
    "BLOB",
    "CONTRACT_TABLES",
    "DOUBLE",
    "EVALUATIONS",
    "FLOAT",
    "INT",
    "LEDGER",
    "METRICS",
    "RECEIPTS",
    "SEGMENTS",
    "SMALLINT",
    "STORED_TABLES",
    "TASKS",
    "TENSORS",
    "TEXT",
    "TIMESTAMP",
    "TOOL_CALLS",
    "TRAJECTORIES",
    "USMALLINT",
    "VERDICTS",
    "Column",
    "ColumnType",
    "ListOf",
    "MapOf",
    "Numbers",
    "Scalar",
    "StructOf",
    "Table",
    "is_measured_metric",
    "sql_type",
    "table_named",
]


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value, by its SQL name."""

    sql: str


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list of one type."""

    item: "ColumnType"


@dataclass(frozen=True, slots=True)
class StructOf:
    """Named fields, in order."""

    fields: tuple[tuple[str, "ColumnType"], ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """Keys and values; stored sorted by key."""

    key: Scalar
    value: Scalar


ColumnType = Scalar | ListOf | StructOf | MapOf


class Numbers(StrEnum):
    """Which floating-point numbers a column may hold."""

    FINITE = "finite"
    NOT_NAN = "not_nan"
    """Infinite is information; undefined is null, never NaN."""
    ANY = "any"
    """What a learner computed: a non-finite value is flagged in the same row, and has to be storable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    type: ColumnType
    is_nullable: bool
    is_measured: bool = False
    numbers: Numbers = Numbers.FINITE


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One table: one view in a query, one folder of shards in a run."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def __hash__(self) -> int:
        """By name: what is kept by table is found without looking at its columns."""
        return hash(self.name)

    def column(self, name: str) -> Column:
        """The column of that name."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(f"table {self.name} has no column {name}; it has {', '.join(c.name for c in self.columns)}")


def sql_type(of: ColumnType) -> str:
    """The type as SQL writes it: `STRUCT(n INT[], v FLOAT[])`."""
    match of:
        case Scalar():
            return of.sql
        case ListOf():
            return f"{sql_type(of.item)}[]"
        case StructOf():
            return f"STRUCT({', '.join(f'{name} {sql_type(inner)}' for name, inner in of.fields)})"
        case MapOf():
            return f"MAP({sql_type(of.key)}, {sql_type(of.value)})"


TEXT = Scalar("TEXT")
BIGINT = Scalar("BIGINT")
INT = Scalar("INT")
SMALLINT = Scalar("SMALLINT")
USMALLINT = Scalar("USMALLINT")
DOUBLE = Scalar("DOUBLE")
FLOAT = Scalar("FLOAT")
TIMESTAMP = Scalar("TIMESTAMP")
BLOB = Scalar("BLOB")

_LABELS = MapOf(TEXT, TEXT)
_NAMED_VALUES = ListOf(StructOf((("name", TEXT), ("value", DOUBLE))))
_REWARD_COMPONENTS = ListOf(StructOf((("name", TEXT), ("value", DOUBLE), ("weight", DOUBLE))))
_ARTIFACTS = ListOf(StructOf((("name", TEXT), ("sha256", TEXT), ("bytes", BIGINT), ("media_type", TEXT))))
_SAMPLING = StructOf(
    (("temperature", FLOAT), ("top_p", FLOAT), ("top_k", INT), ("min_p", FLOAT), ("processors", ListOf(TEXT)))
)
_SPANS = ListOf(StructOf((("kind", TEXT), ("token_start", INT), ("token_end", INT))))


def _runs(of: Scalar) -> StructOf:
    return StructOf((("n", ListOf(INT)), ("v", ListOf(of))))


def _required(name: str, of: ColumnType, numbers: Numbers = Numbers.FINITE) -> Column:
    return Column(name=name, type=of, is_nullable=False, numbers=numbers)


def _optional(name: str, of: ColumnType, numbers: Numbers = Numbers.FINITE) -> Column:
    return Column(name=name, type=of, is_nullable=True, numbers=numbers)


def _measured(name: str, of: Scalar) -> Column:
    return Column(name=name, type=of, is_nullable=False, is_measured=True)


TRAJECTORIES = Table(
    name="trajectories",
    key=("trajectory_id",),
    columns=(
        _required("trajectory_id", TEXT),
        _required("purpose", TEXT),
        _required("stage", TEXT),
        _required("group_id", BIGINT),
        _required("slot", SMALLINT),
        _required("attempt", SMALLINT),
        _required("task_id", TEXT),
        _required("task_source", TEXT),
        _required("task_revision", TEXT),
        _required("task_split", TEXT),
        _required("environment", TEXT),
        _required("environment_revision", TEXT),
        _optional("sandbox_profile", TEXT),
        _required("reset_seed", BIGINT),
        _optional("initial_state_hash", TEXT),
        _required("rendering_revision", TEXT),
        _optional("lineage", TEXT),
        _optional("parent_trajectory_id", TEXT),
        _required("terminal_reason", TEXT),
        _optional("failure_class", TEXT),
        _optional("failure_cause", TEXT),
        _optional("reward", DOUBLE),
        _optional("unscored_reason", TEXT),
        _required("reward_rule", TEXT),
        _required("reward_components", _REWARD_COMPONENTS),
        _required("artifacts", _ARTIFACTS),
        _required("num_turns", SMALLINT),
        _required("num_tokens", INT),
        _required("num_action_tokens", INT),
        _measured("started_at", TIMESTAMP),
        _measured("ended_at", TIMESTAMP),
        _measured("queue_s", FLOAT),
        _measured("sampling_s", FLOAT),
        _measured("tools_s", FLOAT),
        _measured("verifying_s", FLOAT),
        _optional("cost", DOUBLE),
    ),
)

SEGMENTS = Table(
    name="segments",
    key=("trajectory_id", "segment"),
    columns=(
        _required("trajectory_id", TEXT),
        _required("segment", INT),
        _optional("parent", INT),
        _required("context", SMALLINT),
        _optional("spawned_by", TEXT),
        _required("start", INT),
        _required("num_tokens", INT),
        _required("origin", TEXT),
        _required("actor", TEXT),
        _required("turn", SMALLINT),
        _required("token_ids", ListOf(INT)),
        _optional("behavior_logprobs", ListOf(FLOAT)),
        _optional("policy", TEXT),
        _optional("policy_version", INT),
        _optional("cache_version", INT),
        _optional("sampling", _SAMPLING),
        _optional("spans", _SPANS),
        _optional("finish", TEXT),
        _optional("copied_from", INT),
        _optional("call_id", TEXT),
        _optional("state_hash", TEXT),
    ),
)

TENSORS = Table(
    name="tensors",
    key=("trajectory_id", "segment", "name"),
    columns=(
        _required("trajectory_id", TEXT),
        _required("segment", INT),
        _required("name", TEXT),
        _required("dtype", TEXT),
        _required("shape", ListOf(INT)),
        _optional("data", BLOB),
        _optional("sha256", TEXT),
    ),
)

TOOL_CALLS = Table(
    name="tool_calls",
    key=("call_id",),
    columns=(
        _required("call_id", TEXT),
        _required("trajectory_id", TEXT),
        _required("asked_in", INT),
        _optional("answered_in", INT),
        _required("turn", SMALLINT),
        _required("tool", TEXT),
        _required("tool_revision", TEXT),
        _required("arguments", TEXT),
        _required("status", TEXT),
        _optional("result", TEXT),
        _optional("result_sha256", TEXT),
        _required("result_bytes", BIGINT),
        _required("retention", TEXT),
        _measured("started_at", TIMESTAMP),
        _measured("latency_s", FLOAT),
        _optional("cost", DOUBLE),
    ),
)

VERDICTS = Table(
    name="verdicts",
    key=("trajectory_id", "scoring", "verifier", "scope", "segment", "token_start"),
    columns=(
        _required("trajectory_id", TEXT),
        _required("scoring", SMALLINT),
        _required("verifier", TEXT),
        _required("verifier_revision", TEXT),
        _required("scope", TEXT),
        _required("segment", INT),
        _required("token_start", INT),
        _required("token_end", INT),
        _required("status", TEXT),
        _optional("error_cause", TEXT),
        _optional("value", DOUBLE),
        _required("components", _NAMED_VALUES),
        _optional("finding", TEXT),
        _optional("evidence", TEXT),
        _measured("latency_s", FLOAT),
        _optional("cost", DOUBLE),
    ),
)

RECEIPTS = Table(
    name="receipts",
    key=("update", "model", "component", "trajectory_id", "segment"),
    columns=(
        _required("step", INT),
        _required("update", BIGINT),
        _required("model", TEXT),
        _required("component", TEXT),
        _required("trajectory_id", TEXT),
        _required("segment", INT),
        _required("row_index", INT),
        _required("lag", SMALLINT),
        _required("num_eligible", INT),
        _required("num_kept", INT),
        _optional("untrained_reason", TEXT),
        _optional("advantage", _runs(FLOAT)),
        _optional("token_weight", _runs(DOUBLE)),
        _optional("correction", _runs(FLOAT), Numbers.ANY),
        _optional("flags", _runs(USMALLINT)),
        _optional("proximal_logprobs", ListOf(FLOAT), Numbers.ANY),
        _optional("current_logprobs", ListOf(FLOAT), Numbers.ANY),
        _optional("reference_logprobs", ListOf(FLOAT), Numbers.ANY),
        _optional("teacher_logprobs", ListOf(FLOAT), Numbers.ANY),
        _optional("predicted_values", ListOf(FLOAT), Numbers.ANY),
        _optional("value_targets", ListOf(FLOAT), Numbers.ANY),
        _optional("entropy", FLOAT, Numbers.ANY),
        _optional("max_log_ratio", FLOAT, Numbers.ANY),
        _required("loss", DOUBLE, Numbers.ANY),
        _required("influence", DOUBLE, Numbers.ANY),
    ),
)

LEDGER = Table(
    name="ledger",
    key=("seq",),
    columns=(
        _required("seq", BIGINT),
        _measured("recorded_at", TIMESTAMP),
        _required("step", INT),
        _required("group_id", BIGINT),
        _required("slot", SMALLINT),
        _required("attempt", SMALLINT),
        _required("task_id", TEXT),
        _required("task_source", TEXT),
        _required("state", TEXT),
        _optional("rule", TEXT),
        _optional("trajectory_id", TEXT),
        _optional("successor", BIGINT),
        _required("policy_version", INT),
    ),
)

METRICS = Table(
    name="metrics",
    key=("step", "update", "name", "labels"),
    columns=(
        _required("step", INT),
        _required("update", BIGINT),
        _required("name", TEXT),
        _optional("value", DOUBLE, Numbers.NOT_NAN),
        _required("unit", TEXT),
        _required("labels", _LABELS),
        _required("num_items", BIGINT),
        _measured("recorded_at", TIMESTAMP),
    ),
)

EVALUATIONS = Table(
    name="evaluations",
    key=("evaluation", "metric", "labels"),
    columns=(
        _required("evaluation", TEXT),
        _required("protocol", TEXT),
        _required("protocol_sha256", TEXT),
        _required("policy", TEXT),
        _required("policy_version", INT),
        _required("step", INT),
        _required("metric", TEXT),
        _optional("value", DOUBLE, Numbers.NOT_NAN),
        _optional("low", DOUBLE, Numbers.NOT_NAN),
        _optional("high", DOUBLE, Numbers.NOT_NAN),
        _required("level", FLOAT),
        _required("interval_method", TEXT),
        _required("labels", _LABELS),
        _required("num_tasks", INT),
        _required("num_trajectories", INT),
        _required("num_unscored", INT),
        _measured("recorded_at", TIMESTAMP),
    ),
)

TASKS = Table(
    name="tasks",
    key=("task_id",),
    columns=(
        _required("task_id", TEXT),
        _required("source", TEXT),
        _required("revision", TEXT),
        _required("split", TEXT),
        _required("payload", TEXT),
    ),
)
"""Each task, with what a verifier needs to judge a stored episode again; once, but for one that returns very late."""

CONTRACT_TABLES = (
    TRAJECTORIES,
    SEGMENTS,
    TENSORS,
    TOOL_CALLS,
    VERDICTS,
    RECEIPTS,
    LEDGER,
    METRICS,
    EVALUATIONS,
)
STORED_TABLES = (*CONTRACT_TABLES, TASKS)

_MEASURED_UNITS = frozenset({"s", "ms", "us", "ns", "h", "bytes", "kib", "mib", "gib", "kb", "mb", "gb"})
_MEASURED_ENDINGS = ("/s", "_s", "_per_s", "/h", "_bytes", "_per_second")


def is_measured_metric(name: str, unit: str) -> bool:
    """True for a metric of time, rate or memory, which two equal runs do not share."""
    return (
        unit.lower() in _MEASURED_UNITS or unit.lower().endswith(_MEASURED_ENDINGS) or name.endswith(_MEASURED_ENDINGS)
    )


def table_named(name: str) -> Table:
    """The table of that name."""
    for table in STORED_TABLES:
        if table.name == name:
            return table
    raise KeyError(f"there is no table {name}; there are {', '.join(t.name for t in STORED_TABLES)}")
