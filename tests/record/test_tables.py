"""The typed list of tables, the SQL of the contract and the fields of the records say the same."""

import dataclasses
import re
import types
import typing
from pathlib import Path

import duckdb
import numpy as np
import pytest

from rollwright.record import (
    EvaluationRow,
    LedgerRow,
    Metric,
    Receipt,
    Runs,
    Sampling,
    ScoredTrajectory,
    Segment,
    ToolCall,
    Trajectory,
    Verdict,
)
from rollwright.record.columns import arrow_schema
from rollwright.record.tables import (
    CONTRACT_TABLES,
    STORED_TABLES,
    Column,
    ListOf,
    MapOf,
    StructOf,
    is_measured_metric,
    sql_type,
    table_named,
)

CONTRACT = Path(__file__).parents[1] / "data/contracts/tables.sql"


@pytest.fixture(scope="module")
def contract() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute(CONTRACT.read_text(encoding="utf-8"))
    return connection


@pytest.fixture(scope="module")
def typed() -> duckdb.DuckDBPyConnection:
    """The typed list, made into tables."""
    connection = duckdb.connect()
    for table in CONTRACT_TABLES:
        columns = [f"{c.name} {sql_type(c.type)}{'' if c.is_nullable else ' NOT NULL'}" for c in table.columns]
        connection.execute(f"CREATE TABLE {table.name} ({', '.join(columns)})")
    return connection


COLUMNS = """SELECT table_name, column_index, column_name, data_type, is_nullable FROM duckdb_columns()
             WHERE NOT internal ORDER BY ALL"""


def test_columns_types_and_nullability_are_the_contracts(contract, typed):
    assert typed.execute(COLUMNS).fetchall() == contract.execute(COLUMNS).fetchall()


def test_keys_are_the_contracts(contract):
    found = contract.execute(
        "SELECT table_name, constraint_column_names FROM duckdb_constraints() WHERE constraint_type = 'PRIMARY KEY'"
    ).fetchall()
    keys = {name: tuple(columns) for name, columns in found}
    # Keys with a MAP stand in a comment: SQL has no primary key over one.
    said = re.findall(r"CREATE TABLE (\w+) \( -- key \(([^)]*)\)", CONTRACT.read_text(encoding="utf-8"))
    keys |= {name: tuple(columns.split(", ")) for name, columns in said}
    assert keys == {t.name: t.key for t in CONTRACT_TABLES}


def test_measured_are_exactly_the_timestamps_and_durations():
    for table in CONTRACT_TABLES:
        for column in table.columns:
            is_due = column.name.endswith("_s") or column.type == table_named("ledger").column("recorded_at").type
            assert column.is_measured == is_due, f"{table.name}.{column.name}"


@pytest.mark.parametrize(
    ("name", "unit", "is_measured"),
    [
        ("step_s", "s", True),
        ("tokens_per_s", "tokens/s", True),
        ("peak_memory", "bytes", True),
        ("sampling", "tokens/s", True),
        ("weight_sum", "1", False),
        ("entropy", "nats", False),
        ("num_tokens", "tokens", False),
        ("loss", "nats", False),
    ],
)
def test_metrics_of_time_rate_and_memory_are_measured(name, unit, is_measured):
    assert is_measured_metric(name, unit) == is_measured


def test_arrow_keeps_names_order_and_nullability():
    for table in STORED_TABLES:
        assert [(f.name, f.nullable) for f in arrow_schema(table)] == [(c.name, c.is_nullable) for c in table.columns]


def without_none(hint):
    options = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    rest = [o for o in options if o is not types.NoneType]
    assert len(rest) == 1, hint
    return rest[0], len(options) != len(rest)


def assert_field_holds(column: Column, hint) -> None:
    inner, is_optional = without_none(hint)
    assert is_optional == column.is_nullable, column.name
    origin = typing.get_origin(inner)
    match column.type:
        case StructOf(fields=fields):
            assert inner in (Runs, Sampling)
            assert [name for name, _ in fields] == [f.name for f in dataclasses.fields(inner)]
        case ListOf(item=StructOf(fields=fields)):
            assert origin is tuple
            assert [name for name, _ in fields] == [f.name for f in dataclasses.fields(typing.get_args(inner)[0])]
        case ListOf():
            assert origin is np.ndarray, f"{column.name} is a number list, so an array"
        case MapOf():
            assert typing.get_args(inner) == (str, str)
        case scalar if scalar.sql == "TEXT":
            assert inner is str or all(isinstance(v, str) for v in typing.get_args(inner)), column.name
        case scalar if scalar.sql == "TIMESTAMP":
            assert inner.__name__ == "datetime"
        case scalar:
            assert inner is (float if scalar.sql in ("DOUBLE", "FLOAT") else int), column.name


@pytest.mark.parametrize(
    ("table", "record", "left_out", "properties", "beside"),
    [
        ("segments", Segment, {"trajectory_id"}, {"num_tokens"}, {"tensors"}),
        ("tool_calls", ToolCall, {"trajectory_id"}, set(), set()),
        ("receipts", Receipt, set(), set(), set()),
        ("ledger", LedgerRow, set(), set(), set()),
        ("metrics", Metric, set(), set(), set()),
        ("evaluations", EvaluationRow, set(), set(), set()),
    ],
)
def test_a_record_has_the_columns_of_its_table_as_fields(table, record, left_out, properties, beside):
    hints = typing.get_type_hints(record)
    columns = {c.name: c for c in table_named(table).columns if c.name not in left_out | properties}
    assert set(hints) - beside == set(columns)
    assert all(isinstance(getattr(record, name), property) for name in properties)
    for name, column in columns.items():
        assert_field_holds(column, hints[name])


def test_a_trajectory_and_its_scores_have_the_columns_as_fields():
    fields = set(typing.get_type_hints(Trajectory)) | set(typing.get_type_hints(ScoredTrajectory))
    columns = {c.name for c in table_named("trajectories").columns}
    of_task = {"task_id", "task_source", "task_revision", "task_split"}
    counts = {"num_turns", "num_tokens", "num_action_tokens"}
    of_outcome = {"reward", "unscored_reason"}
    assert columns - fields == of_task | counts | of_outcome
    assert fields - columns == {"task", "segments", "tool_calls", "turn_rewards", "trajectory", "verdicts", "outcome"}


def test_a_verdict_has_the_columns_as_fields():
    columns = {c.name for c in table_named("verdicts").columns}
    fields = set(typing.get_type_hints(Verdict))
    assert columns - fields == {
        *("scoring", "verifier_revision", "status", "error_cause", "value"),
        *("segment", "token_start", "token_end"),
    }
    assert fields - columns == {"revision", "outcome", "span", "canonical"}


def test_run_lengths_are_whole_numbers_and_values_keep_their_width():
    receipts = table_named("receipts")
    widths = {name: sql_type(receipts.column(name).type) for name in ("advantage", "token_weight", "flags")}
    assert widths == {
        "advantage": "STRUCT(n INT[], v FLOAT[])",
        "token_weight": "STRUCT(n INT[], v DOUBLE[])",
        "flags": "STRUCT(n INT[], v USMALLINT[])",
    }
