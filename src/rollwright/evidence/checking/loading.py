"""A run as far as it can be read: what is altered is read all the same and named, what is unreadable is named.

commits ──► shards, each compared with its digest ──► Arrow tables ──► a database in memory, with the views of a run
"""

import hashlib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rollwright.evidence.checking.findings import Concern, Finding
from rollwright.evidence.commits import Commit
from rollwright.evidence.events import Event
from rollwright.evidence.manifest import Manifest
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import Shard
from rollwright.evidence.token_text import TokenText
from rollwright.evidence.views import lay_views
from rollwright.record.columns import arrow_schema, arrow_type, encode_rows
from rollwright.record.tables import STORED_TABLES, Table

__all__ = ["TRAINED_ORIGINS", "LoadedRun", "LoadedShard", "load_run"]

TRAINED_ORIGINS = ("policy", "demonstration", "teacher")
"""What an objective may train; the other tokens are the world's, and no loss is made of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedShard:
    """Which rows of a table a commit holds."""

    commit: int
    kind: str
    step: int
    table: str
    first_row: int
    num_rows: int


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """The committed rows of a run, and what was wrong with its files."""

    folder: RunFolder
    tables: Mapping[str, pa.Table]
    """By name, in the order of the commits."""
    shards: tuple["LoadedShard", ...]
    """Those that could be read."""
    connection: duckdb.DuckDBPyConnection
    file_findings: tuple[Finding, ...]
    missing: frozenset[str] = field(default_factory=lambda: frozenset[str]())
    """Tables of which some shard could not be read: what they should hold is not expected of them."""
    hurt_commits: frozenset[int] = field(default_factory=lambda: frozenset[int]())
    """Commits of which some shard could not be read: their other rows lack what they hang on."""
    unread: list[str] = field(default_factory=lambda: list[str]())
    """Questions that could not be answered, a sentence each."""

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """Of each segment of the run, in order."""
        return self.folder.manifests

    @cached_property
    def tokens(self) -> TokenText | None:
        """The run's tokenizer; None where the folder carries none that can be read."""
        return TokenText.of(self.folder.tokenizer)

    @cached_property
    def foreign_ids(self) -> frozenset[int]:
        """Token ids of segments that the tokenizer does not have; none where there is no tokenizer."""
        tokens = self.tokens
        if tokens is None:
            return frozenset()
        known = [int(str(row[0])) for row in self.rows("SELECT DISTINCT unnest(token_ids) AS id FROM segments")]
        return frozenset(one for one in known if one < 0 or not tokens.has(one))

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """The answer of the database."""
        return self.connection.execute(sql).fetchall()

    def found(self, concern: Concern, sql: str) -> list[Finding]:
        """Findings from a question whose columns are place, text and what was expected."""
        try:
            rows = self.rows(sql)
        except duckdb.Error as error:
            # What is altered may hold what no sum can be made of; the other questions are asked all the same.
            self.unread.append(f"one question about {concern} could not be answered: {_first_line(error)}.")
            return []
        return [
            Finding(place=str(row[0]), text=str(row[1]), expected=str(row[2] or ""), concern=concern) for row in rows
        ]


@contextmanager
def load_run(path: Path) -> Generator[LoadedRun]:
    """Read a run as far as it can be read.

    Args:
        path: a run folder; it may be being written.

    Raises:
        NotARunError: when there is none.
        SchemaVersionError: when it is of another schema.
        EvidenceError: when its commits cannot be read.
    """
    folder = RunFolder.open(path)
    reading = _Reading(folder.path)
    for commit in folder.commits:
        for shard in commit.shards:
            reading.read(commit, shard)
    tables = {table.name: reading.table(table) for table in STORED_TABLES}
    with duckdb.connect(":memory:") as connection:
        _lay_tables(connection, tables, reading.shards)
        _lay_resumes(connection, folder.events())
        lay_views(connection, folder, lambda table: f"stored_{table.name}")
        # A list that lets more be trained is one finding; what would follow from it is not asked.
        connection.execute("ALTER VIEW eligible RENAME TO listed")
        connection.execute(f"CREATE VIEW eligible AS FROM listed WHERE origin IN {TRAINED_ORIGINS}")
        yield LoadedRun(
            folder=folder,
            tables=tables,
            shards=tuple(reading.shards),
            connection=connection,
            file_findings=tuple(reading.findings),
            missing=frozenset(reading.missing),
            hurt_commits=frozenset(reading.hurt_commits),
        )


class _Reading:
    """Reads shards one after the other and notes what is wrong with them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._parts: dict[str, list[pa.Table]] = {}
        self.shards: list[LoadedShard] = []
        self._rows: dict[str, int] = {}
        self.findings: list[Finding] = []
        self.missing: set[str] = set()
        self.hurt_commits: set[int] = set()

    def read(self, commit: Commit, shard: Shard) -> None:
        """One shard, whatever its state."""
        table = next((t for t in STORED_TABLES if t.name == shard.table), None)
        if table is None:
            self._note(shard, f"commit {commit.number} lists it for a table {shard.table}, which no run has")
            return
        try:
            content = (self._root / shard.path).read_bytes()
        except OSError:
            self._lose(commit, table)
            self.findings.append(
                Finding(
                    place=shard.path,
                    text=f"the file is missing: commit {commit.number} lists it with {shard.num_rows} rows",
                    expected="restore it from a copy of the run",
                    severity="loss",
                )
            )
            return
        self._compare(commit, shard, content)
        rows = self._parsed(shard, content, table)
        if rows is None:
            self._lose(commit, table)
            return
        if rows.num_rows != shard.num_rows:
            self._note(shard, f"it holds {rows.num_rows} rows", f"{shard.num_rows}, as commit {commit.number} says")
        first = self._rows.get(table.name, 0)
        self.shards.append(
            LoadedShard(
                commit=commit.number,
                kind=commit.kind,
                step=commit.step,
                table=table.name,
                first_row=first,
                num_rows=rows.num_rows,
            )
        )
        self._rows[table.name] = first + rows.num_rows
        self._parts.setdefault(table.name, []).append(rows)

    def table(self, table: Table) -> pa.Table:
        """All rows of a table."""
        parts = self._parts.get(table.name)
        return pa.concat_tables(parts).combine_chunks() if parts else encode_rows(table, [])

    def _lose(self, commit: Commit, table: Table) -> None:
        self.missing.add(table.name)
        self.hurt_commits.add(commit.number)

    def _compare(self, commit: Commit, shard: Shard, content: bytes) -> None:
        if len(content) != shard.num_bytes:
            self._note(shard, f"it has {len(content):,} bytes", f"{shard.num_bytes:,}, as commit {commit.number} says")
        elif (sha256 := hashlib.sha256(content).hexdigest()) != shard.sha256:
            text = f"it was altered: its sha256 is {sha256[:12]}…"
            self._note(shard, text, f"{shard.sha256[:12]}…, as commit {commit.number} says")

    def _parsed(self, shard: Shard, content: bytes, table: Table) -> pa.Table | None:
        try:
            rows = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            self._note(shard, f"it cannot be read as Parquet: {_first_line(error)}")
            return None
        due = arrow_schema(table)
        if set(rows.column_names) != set(due.names):
            absent = sorted(set(due.names) - set(rows.column_names))
            foreign = sorted(set(rows.column_names) - set(due.names))
            self._note(shard, f"columns are missing {absent} or foreign {foreign}", "the columns of the schema")
            return None
        rows = rows.select(due.names)
        # Without the schema's refusal of nulls, which are findings of their own.
        nullable = pa.schema([pa.field(c.name, arrow_type(c.type)) for c in table.columns])
        try:
            return rows.cast(nullable)
        except (pa.ArrowException, ValueError) as error:
            self._note(shard, f"its columns are of other types: {_first_line(error)}", "the types of the schema")
            return None

    def _note(self, shard: Shard, text: str, expected: str = "") -> None:
        """One finding a file, whatever is wrong with it."""
        if self.findings and self.findings[-1].place == shard.path:
            last = self.findings.pop()
            text, expected = f"{last.text}; {text}", last.expected or expected
        self.findings.append(Finding(place=shard.path, text=text, expected=expected))


def _lay_tables(
    connection: duckdb.DuckDBPyConnection, tables: Mapping[str, pa.Table], shards: Sequence[LoadedShard]
) -> None:
    """Each table as `stored_NAME`, its rows numbered by `place`, and which commit holds which of them."""
    connection.execute(
        "CREATE TABLE shard_rows "
        "(commit BIGINT, kind TEXT, step BIGINT, table_name TEXT, first_row BIGINT, num_rows BIGINT)"
    )
    if shards:
        rows = [[s.commit, s.kind, s.step, s.table, s.first_row, s.num_rows] for s in shards]
        connection.executemany("INSERT INTO shard_rows VALUES (?, ?, ?, ?, ?, ?)", rows)
    for name, table in tables.items():
        connection.register("arrow_rows", table)
        connection.execute(f"CREATE TABLE stored_{name} AS SELECT *, row_number() OVER () - 1 AS place FROM arrow_rows")
    connection.unregister("arrow_rows")


def _lay_resumes(connection: duckdb.DuckDBPyConnection, events: Sequence[Event]) -> None:
    """From which steps the run went on after it had ended or was killed."""
    connection.execute("CREATE TABLE resumes (step BIGINT)")
    steps = [[event.step] for event in events if event.kind == "resumed" and event.step is not None]
    if steps:
        connection.executemany("INSERT INTO resumes VALUES (?)", steps)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:200]
