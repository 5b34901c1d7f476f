"""Text to SQL: the policy's query is run read-only beside the gold one, and the result sets are compared.

What the policy writes is data until SQLite has refused all but reading: the file is opened read-only and immutable, an
authorizer lets SELECT, reads and plain functions pass, one statement is run, and time, rows and lengths are bounded.
"""

import re
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from rollwright.record import Submission, digest
from rollwright.verifiers.answers import AnswerRule, final_text, read_answer
from rollwright.verifiers.errors import GoldError, VerifierSetupError
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload, no_answer
from rollwright.verifiers.threads import ThreadedVerifier

__all__ = ["SqlLimits", "SqlRefusedError", "run_select", "sql_verifier"]

REFUSED = "refused_query"
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})
_FORBIDDEN_FUNCTIONS = frozenset(
    {"load_extension", "printf", "format", "random", "randomblob", "zeroblob", "fts3_tokenizer"}
)
"""They reach outside, differ from run to run, or take their time without a look at the clock."""
_FENCE = re.compile(r"```(?:sql)?\s*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_OPERATIONS = 1000
"""Of SQLite's machine, between two looks at the clock."""
_REVISION = 1

Rows = list[tuple[object, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLimits:
    """Of one query."""

    seconds: float = 2.0
    rows: int = 10_000
    text_bytes: int = 100_000
    """Of one value, and so of what a function of text can take at a time."""
    query_characters: int = 10_000

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if min(self.seconds, self.rows, self.text_bytes, self.query_characters) <= 0:
            raise VerifierSetupError(f"{self}: every limit must be above 0")


class SqlRefusedError(ValueError):
    """A query that is not run to its end; its text says why."""


def sql_verifier(
    rule: AnswerRule | None = None, limits: SqlLimits | None = None, *, name: str = "sql"
) -> ThreadedVerifier:
    """1 where the policy's SELECT gives the rows of the gold one, else 0.

    The task's answer is the gold query and `info.schema` the statements that make the database. The policy's query is
    the last fenced block of its last turn, else what follows the answer marker. Rows count as often as they come;
    their order counts where the gold query orders its own. It runs in a thread of its own.

    Args:
        rule: where an answer without a fence stands.
        limits: of each query.
        name: in the tables.
    """
    reading, bounds = rule or AnswerRule(marker="sql:"), limits or SqlLimits()

    def grade(submission: Submission) -> Grade:
        payload = gold_payload(submission)
        query = _query_of(submission, reading)
        if not query:
            return no_answer(0)
        with tempfile.TemporaryDirectory(prefix="sql-") as folder:
            path = Path(folder) / "data.sqlite"
            try:
                _make(path, payload.text("schema"))
                wanted = run_select(path, payload.answer, bounds)
            except (SqlRefusedError, sqlite3.Error) as error:
                raise GoldError(f"info.schema and the gold query: {error}") from error
            try:
                found = run_select(path, query, bounds)
            except SqlRefusedError as error:
                return Grade(value=0.0, finding=REFUSED, evidence=str(error))
        is_equal = _equal_rows(wanted, found, is_ordered=_orders(payload.answer))
        return Grade(value=float(is_equal), evidence=f"{len(found)} rows against {len(wanted)}")

    settings = [bounds.seconds, bounds.rows, bounds.text_bytes, bounds.query_characters]
    revision = digest([_REVISION, name, reading.parts(), settings])[:16]
    deadline_s = 3 * bounds.seconds + 1
    return ThreadedVerifier(FunctionVerifier(name=name, revision=revision, grade=grade, deadline_s=deadline_s))


def run_select(path: Path, query: str, limits: SqlLimits) -> Rows:
    """Run one SELECT on a database file that nothing can be written to.

    Raises:
        SqlRefusedError: for anything but one SELECT, an error in it, or a limit that it ran into.
    """
    if len(query) > limits.query_characters:
        raise SqlRefusedError(f"the query has {len(query)} characters; {limits.query_characters} are allowed")
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.text_bytes)
        connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 100)
        connection.text_factory = _text_of
        ends = time.monotonic() + limits.seconds
        connection.set_authorizer(_authorize)
        connection.set_progress_handler(lambda: int(time.monotonic() > ends), _OPERATIONS)
        try:
            cursor = connection.execute(query)
            rows: Rows = cursor.fetchmany(limits.rows + 1)
        except (sqlite3.Error, sqlite3.Warning, ValueError) as error:
            if time.monotonic() > ends:
                raise SqlRefusedError(f"no result within {limits.seconds:g} seconds") from error
            raise SqlRefusedError(f"{type(error).__name__}: {error}") from error
        if cursor.description is None:
            raise SqlRefusedError("the query gives no rows; it must be a SELECT")
        if len(rows) > limits.rows:
            raise SqlRefusedError(f"more than {limits.rows} rows")
        return rows


def _authorize(action: int, first: str | None, second: str | None, database: str | None, trigger: str | None) -> int:
    if action not in _ALLOWED:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and (second or "").casefold() in _FORBIDDEN_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _make(path: Path, schema: str) -> None:
    """Write the task's own database."""
    if not schema.strip():
        raise SqlRefusedError("the task has no info.schema")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(schema)
        connection.commit()


def _query_of(submission: Submission, rule: AnswerRule) -> str:
    fenced = _FENCE.findall(final_text(submission, rule).text)
    found = fenced[-1] if fenced else read_answer(submission, rule).answer
    return (found or "").strip()


def _orders(query: str) -> bool:
    return re.search(r"\border\s+by\b", query, re.IGNORECASE) is not None


def _equal_rows(wanted: Rows, found: Rows, *, is_ordered: bool) -> bool:
    one, other = [_plain(row) for row in wanted], [_plain(row) for row in found]
    return one == other if is_ordered else Counter(one) == Counter(other)


def _plain(row: Sequence[object]) -> tuple[object, ...]:
    """Cells that compare as a reader would: 2 and 2.0 are one number, and sums differ in their last digits."""
    return tuple(("number", float(f"{cell:.10g}")) if isinstance(cell, int | float) else cell for cell in row)


def _text_of(raw: bytes) -> str:
    return raw.decode(errors="replace")
