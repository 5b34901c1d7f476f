"""SQL over a run: DuckDB views of the committed rows, with the contract's names and the survey's derived fields."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, assert_never

import duckdb

from rollwright.evidence.errors import QueryError
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import Shard, assert_intact, assert_whole
from rollwright.record import EligibleRow
from rollwright.record.tables import CONTRACT_TABLES, TASKS, Table, sql_type

__all__ = ["QUERIES", "QueryResult", "Verification", "connect", "lay_views", "query", "query_text"]

Verification = Literal["digests", "sizes"]
"""How committed files are compared before they are read: by content, or by size alone (fast, for a live view)."""

QUERIES = ("moved", "audit", "audit_sums", "task", "balance")
"""Ready questions: `moved` ($step) which episodes moved a step most, `audit` is every gradient covered, `task`
($task_id) what became of a task, `balance` the ledger's sums."""

_EXPAND = """CREATE MACRO expand(s) AS CASE WHEN s IS NULL THEN NULL WHEN len(s.n) = 0 THEN s.v
  ELSE flatten(list_transform(range(1, len(s.n) + 1), lambda i: list_resize([s.v[i]], s.n[i], s.v[i]))) END"""
_SLOTS = """CREATE VIEW slots AS
  FROM ledger QUALIFY row_number() OVER (PARTITION BY group_id, slot ORDER BY seq DESC) = 1"""
_CONTEXTS = """CREATE VIEW contexts AS WITH RECURSIVE grown AS (
  SELECT trajectory_id, segment, start, token_ids AS through FROM segments WHERE parent IS NULL
  UNION ALL
  SELECT s.trajectory_id, s.segment, s.start, list_concat(grown.through, s.token_ids)
  FROM segments s JOIN grown ON s.trajectory_id = grown.trajectory_id AND s.parent = grown.segment)
  SELECT trajectory_id, segment, through[:start] AS input_token_ids FROM grown"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResult:
    """Rows of an answer, in order."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def connect(path: Path, *, verification: Verification = "digests") -> duckdb.DuckDBPyConnection:
    """A database in memory with a view for each table, `tasks`, `eligible`, `slots`, `contexts` and the macro `expand`.

    It reaches the committed files of the run and no other file, network or extension, and its settings are locked.

    Args:
        path: a run folder; it may be being written.
        verification: how the committed files are compared first.

    Raises:
        ShardError: when a committed file is missing, truncated or altered.
    """
    folder = RunFolder.open(path)
    for commit in folder.commits:
        for shard in commit.shards:
            _verify(folder.path, shard, verification)
    connection = duckdb.connect(":memory:")
    lay_views(connection, folder, lambda table: _source(folder, table))
    _confine(connection, [_place(folder, shard) for commit in folder.commits for shard in commit.shards])
    return connection


def lay_views(connection: duckdb.DuckDBPyConnection, folder: RunFolder, source: Callable[[Table], str]) -> None:
    """Make the macro and the views of a run.

    Args:
        connection: an empty database.
        folder: whose run and which eligible pairs they speak of: those of all segments.
        source: what a table's committed rows are read from, as SQL.
    """
    connection.execute("SET enable_progress_bar = false")
    connection.execute(_EXPAND)
    run_id = _text(folder.manifest.run.run_id)
    connection.execute(_eligible(folder.eligible))
    for table in CONTRACT_TABLES:
        derived = ", ".join([f"{run_id} AS run_id", *_derived(table.name, folder.eligible)])
        connection.execute(f"CREATE VIEW {table.name} AS SELECT *, {derived} FROM {source(table)}")
    connection.execute(f"CREATE VIEW tasks AS SELECT DISTINCT ON (task_id) *, {run_id} AS run_id FROM {source(TASKS)}")
    connection.execute(_SLOTS)
    connection.execute(_CONTEXTS)


def query(path: Path, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
    """Ask a run folder in SQL.

    Args:
        path: a run folder.
        sql: one question over the views: SELECT, FROM, WITH, PIVOT, DESCRIBE, SHOW or SUMMARIZE.
        parameters: values of its `$name` places.

    Raises:
        QueryError: when `sql` is no question, or more than one statement.
        KeyboardInterrupt: when a person stopped it.
    """
    with connect(path) as connection:
        question = _question(connection, sql)

        def ask() -> QueryResult:
            answer = connection.execute(question, dict(parameters) if parameters else None)
            columns = tuple(str(column[0]) for column in answer.description or ())
            return QueryResult(columns=columns, rows=tuple(tuple(row) for row in answer.fetchall()))

        # In a thread of its own: DuckDB looks for signals rarely, and a busy query went on for minutes.
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="query") as thread:
            running = thread.submit(ask)
            try:
                return running.result()
            except KeyboardInterrupt:
                while not running.done():  # one that has not begun yet does not hear the first call
                    connection.interrupt()
                    wait((running,), timeout=0.05)
                raise


def query_text(name: str) -> str:
    """The SQL of one of the ready questions."""
    if name not in QUERIES:
        raise KeyError(f"there is no ready question {name!r}; there are {', '.join(QUERIES)}")
    return (files("rollwright.evidence") / "queries" / f"{name}.sql").read_text(encoding="utf-8")


def _confine(connection: duckdb.DuckDBPyConnection, paths: Sequence[str]) -> None:
    """Let a connection reach these files alone, for good."""
    connection.execute("SET python_enable_replacements = false")
    connection.execute(f"SET allowed_paths = [{', '.join(map(_text, paths))}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _question(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    # An allowed path can be written too: COPY … TO a shard (USE_TMP_FILE false) would replace committed rows.
    statements = connection.extract_statements(sql)
    if not statements:
        raise QueryError('the query is empty; ask something, such as "SELECT count(*) FROM trajectories".')
    if len(statements) > 1:
        raise QueryError(f"the query has {len(statements)} statements; ask one at a time.")
    [statement] = statements
    if not _only_reads(connection, statement):
        raise QueryError(
            f"a query only reads, and this is a statement of kind {statement.type.name}; begin with SELECT, FROM, "
            "WITH, PIVOT, DESCRIBE, SHOW or SUMMARIZE."
        )
    return statement


def _only_reads(connection: duckdb.DuckDBPyConnection, statement: duckdb.Statement) -> bool:
    if statement.type != duckdb.StatementType.MULTI:
        return statement.type == duckdb.StatementType.SELECT
    # A PIVOT without its list of values, or a COPY of one: only a question can stand as a source.
    try:
        return len(connection.extract_statements(f"FROM ({statement.query.rstrip().rstrip(';')}\n)")) == 1
    except duckdb.ParserException:
        return False


def _verify(root: Path, shard: Shard, verification: Verification) -> None:
    match verification:
        case "digests":
            assert_intact(root, shard)
        case "sizes":
            assert_whole(root, shard)
        case _:
            assert_never(verification)


def _source(folder: RunFolder, table: Table) -> str:
    paths = [_place(folder, s) for c in folder.commits for s in c.shards if s.table == table.name]
    if paths:
        return f"read_parquet([{', '.join(map(_text, paths))}], hive_partitioning = false)"
    columns = ", ".join(f"NULL::{sql_type(c.type)} AS {c.name}" for c in table.columns)
    return f"(SELECT {columns} WHERE false)"


def _place(folder: RunFolder, shard: Shard) -> str:
    return str(folder.path.resolve() / shard.path)


def _eligible(rows: Sequence[EligibleRow]) -> str:
    values = [f"({', '.join(_text(v) for v in (r.model, r.component, r.origin, r.policy))})" for r in rows]
    source = f"VALUES {', '.join(values)}" if values else "SELECT '', '', '', '' WHERE false"
    return f"CREATE VIEW eligible AS SELECT * FROM ({source}) AS listed(model, component, origin, policy)"


def _derived(table: str, eligible: Sequence[EligibleRow]) -> list[str]:
    match table:
        case "trajectories":
            return [
                "terminal_reason IN ('token_limit', 'turn_limit', 'wall_clock_limit', 'context_limit') AS truncated",
                "terminal_reason = 'wall_clock_limit' AS timeout",
                "terminal_reason = 'infrastructure_failure' AS infrastructure_failure",
            ]
        case "segments":
            pairs = {(r.origin, r.policy) for r in eligible if r.model == "policy"}
            is_trained = " OR ".join(
                f"origin = {_text(origin)} AND policy IS NOT DISTINCT FROM {_text(policy)}"
                for origin, policy in sorted(pairs, key=str)
            )
            return [
                "concat(trajectory_id, '/', segment) AS span_id",
                "CASE WHEN parent IS NOT NULL THEN concat(trajectory_id, '/', parent) END AS parent_span_id",
                "CASE WHEN origin = 'policy' THEN token_ids END AS generated_token_ids",
                f"list_resize([]::BOOLEAN[], num_tokens, {is_trained or 'false'}) AS action_loss_mask",
                "list_resize([]::BOOLEAN[], num_tokens, origin = 'tool') AS tool_result_token_mask",
            ]
        case "receipts":
            return ["CASE WHEN proximal_logprobs IS NOT NULL THEN step - 1 END AS proximal_policy_version"]
        case _:
            return []


def _text(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"
