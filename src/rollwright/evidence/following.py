"""A run looked at again and again, while it may be written, resumed or deleted: each commit file is read once.

    commits/ ─► names ─► those not read yet ─► Look (commits, manifest) ─► SQL over the shards of chosen commits

A `Look` is one consistent state of the run: what a resume abandons afterwards stays readable in it. Sizes and digests
are not compared; `check` does that.
"""

import os
import re
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from pydantic import TypeAdapter, ValidationError

from rollwright.evidence.commits import Commit
from rollwright.evidence.errors import EvidenceError, NotARunError, SchemaVersionError
from rollwright.evidence.manifest import SCHEMA_VERSION, Manifest
from rollwright.evidence.segments import read_manifests
from rollwright.record import EligibleRow
from rollwright.record.tables import STORED_TABLES, Table, sql_type, table_named

__all__ = ["FollowedRun", "Look", "Row"]

Row = dict[str, Any]
"""A row of an answer: column to value."""

_ADAPTER = TypeAdapter(Commit)
_NAME = re.compile(r"(\d{6,})-(?:step|evaluation|score|merge)(?:-\d+)?\.json")
_PLACE = re.compile(r"\{(\w+)\}")
_SETTLED_S = 1.0
"""A folder that changed less long ago is listed again: its clock may not tell two changes apart."""
_TRIES = 5
_EXPAND = """CREATE MACRO expand(s) AS CASE WHEN s IS NULL THEN NULL WHEN len(s.n) = 0 THEN s.v
  ELSE flatten(list_transform(range(1, len(s.n) + 1), lambda i: list_resize([s.v[i]], s.n[i], s.v[i]))) END"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Look:
    """One state of a run."""

    path: Path
    manifest: Manifest
    """Of the newest segment of the run."""
    manifests: tuple[Manifest, ...]
    """Of every segment, in order."""
    commits: tuple[Commit, ...]
    """In order."""
    missing: tuple[int, ...]
    """Numbers of commits that are neither there nor abandoned."""
    num_abandoned: int
    revision: str
    """Another one after every change of the commits."""
    connection: duckdb.DuckDBPyConnection
    """Reaches the table folders of the run and nothing else."""

    @property
    def eligible(self) -> tuple[EligibleRow, ...]:
        """What any segment of the run trains, each once."""
        return tuple(dict.fromkeys(row for manifest in self.manifests for row in manifest.eligible))

    @property
    def last_step(self) -> int:
        """The newest step; 0 before the first."""
        return max((c.step for c in self.commits if c.kind == "step"), default=0)

    def count(self, table: str) -> int:
        """Committed rows of a table, from the commits alone."""
        return sum(s.num_rows for c in self.commits for s in c.shards if s.table == table)

    def of_step(self, step: int) -> tuple[Commit, ...]:
        """Commits that hold rows of a step."""
        return tuple(c for c in self.commits if c.step == step)

    def holding(self, table: str) -> tuple[Commit, ...]:
        """Commits with rows of a table."""
        return tuple(c for c in self.commits if any(s.table == table for s in c.shards))

    def ask(
        self, sql: str, values: Mapping[str, object] | None = None, *, commits: Iterable[Commit] | None = None
    ) -> list[Row]:
        """Rows of an answer.

        Args:
            sql: one question of the caller's own; `{segments}` stands for a table, `$name` for a value. Each table
                also has `filename`, the path of the shard that a row stands in.
            values: of the `$name` places; what a visitor typed goes here and nowhere else.
            commits: whose rows are read; all where None.

        Raises:
            EvidenceError: when a committed file cannot be read.
        """
        chosen = self.commits if commits is None else tuple(commits)
        given: dict[str, object] = dict(values or {})

        def source(match: re.Match[str]) -> str:
            table = table_named(match[1])
            paths = _places(self.path, table, chosen)
            if not paths:
                return _empty(table)
            given[f"files_of_{table.name}"] = paths
            return f"read_parquet($files_of_{table.name}, hive_partitioning = false)"

        text = _PLACE.sub(source, sql)
        try:
            with self.connection.cursor() as cursor:
                [statement] = cursor.extract_statements(text)
                # A folder that may be read may be written too, by COPY.
                assert statement.type == duckdb.StatementType.SELECT, "a look only reads"
                answer = cursor.execute(statement, given or None)
                columns = [str(column[0]) for column in answer.description or ()]
                return [dict(zip(columns, row, strict=True)) for row in answer.fetchall()]
        except (duckdb.IOException, duckdb.InvalidInputException, duckdb.PermissionException) as error:
            reason = str(error).splitlines()[0]
            raise EvidenceError(
                f"a committed file of {self.path} cannot be read: {reason}. If the run was moved or deleted meanwhile, "
                "look again; otherwise `rollwright check` says what is wrong."
            ) from error


class FollowedRun:
    """A run folder read by many threads; `look` costs little while nothing was committed."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self.path = path.resolve()
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._seen: dict[tuple[str, int], Commit] = {}
        self._abandoned = 0
        self._listed_at = -1
        self._manifests_at: tuple[int, int] | None = None
        self._look: Look | None = None

    def look(self) -> Look:
        """The run as it stands now.

        Raises:
            NotARunError: when there is none, or no longer.
            SchemaVersionError: when it is of another schema.
            EvidenceError: when a commit or the manifest cannot be read.
        """
        with self._lock:
            for tries_left in reversed(range(_TRIES)):
                try:
                    return self._refresh()
                except FileNotFoundError as error:
                    if tries_left == 0 or not self.path.exists():
                        self._look = None
                        raise NotARunError(
                            f"{self.path} is gone, or no run any longer: {error.filename} is missing. It was moved or "
                            "deleted while it was looked at."
                        ) from None
            raise AssertionError("the last try returns or raises")

    def _refresh(self) -> Look:
        folder = self.path / "commits"
        changed_at = folder.stat().st_mtime_ns
        manifests_at = _changed_at(self.path)
        is_settled = time.time_ns() - changed_at > _SETTLED_S * 1e9
        if self._look is not None and is_settled and changed_at == self._listed_at:
            if manifests_at == self._manifests_at:
                return self._look
        names = _listed(folder)
        manifests = self._look.manifests if self._look is not None else ()
        if manifests_at != self._manifests_at or not manifests:
            manifests = tuple(one.manifest for one in read_manifests(self.path))
        if self._look is None or names.keys() != self._seen.keys() or manifests_at != self._manifests_at:
            self._seen = {key: self._seen.get(key) or _read(folder / key[0]) for key in names}
            self._look = self._made(manifests)
        self._listed_at, self._manifests_at = changed_at, manifests_at
        return self._look

    def _made(self, manifests: tuple[Manifest, ...]) -> Look:
        commits = tuple(sorted(self._seen.values(), key=lambda c: c.number))
        aside = [m for e in _entries(self.path / "commits" / "abandoned") if (m := _NAME.fullmatch(e.name))]
        numbers = {c.number for c in commits} | {int(m[1]) for m in aside}
        newest = f"{commits[-1].number}-{commits[-1].committed_at.timestamp():.3f}" if commits else "0"
        if self._connection is None:
            self._connection = _connection(self.path)
        return Look(
            path=self.path,
            manifest=manifests[-1],
            manifests=manifests,
            commits=commits,
            missing=tuple(sorted(set(range(1, max(numbers, default=0))) - numbers)),
            num_abandoned=len(aside),
            revision=f"{newest}-{len(commits)}-{len(aside)}-{len(manifests)}",
            connection=self._connection,
        )


def _listed(folder: Path) -> dict[tuple[str, int], None]:
    return {(e.name, e.inode()): None for e in _entries(folder) if _NAME.fullmatch(e.name)}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except FileNotFoundError:
        if folder.name == "abandoned":
            return []
        raise


def _read(path: Path) -> Commit:
    try:
        commit = _ADAPTER.validate_json(path.read_bytes())
    except ValidationError as error:
        raise EvidenceError(
            f"{path} is not a commit: {error.errors()[0]['msg']}. Restore it from a copy of the run."
        ) from error
    if commit.schema_version != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{path} is of schema {commit.schema_version}, and this rollwright reads schema {SCHEMA_VERSION}. Use the "
            "version that wrote the run (manifest.json names it)."
        )
    return commit


def _changed_at(path: Path) -> tuple[int, int]:
    later = path / "manifests"
    return (path / "manifest.json").stat().st_mtime_ns, later.stat().st_mtime_ns if later.exists() else 0


def _places(root: Path, table: Table, commits: Sequence[Commit]) -> list[str]:
    return [str(root / s.path) for c in commits for s in c.shards if s.table == table.name]


def _empty(table: Table) -> str:
    columns = ", ".join(f"NULL::{sql_type(c.type)} AS {c.name}" for c in table.columns)
    return f"(SELECT {columns}, NULL::TEXT AS filename WHERE false)"


def _connection(root: Path) -> duckdb.DuckDBPyConnection:
    """A database in memory that reads below the table folders of one run; its settings are locked."""
    connection = duckdb.connect(":memory:")
    connection.execute(_EXPAND)
    folders = ", ".join("'" + str(root / t.name).replace("'", "''") + "/'" for t in STORED_TABLES)
    for setting in (
        "enable_progress_bar = false",
        "python_enable_replacements = false",
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "parquet_metadata_cache = true",
        "temp_directory = ''",
        f"allowed_directories = [{folders}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
    return connection
