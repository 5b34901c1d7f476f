"""`check`: does the record of a run hold together, and what can nobody check in it?"""

from dataclasses import dataclass
from pathlib import Path

import duckdb

from rollwright.evidence.errors import EvidenceError, ShardError
from rollwright.evidence.manifest import Retention
from rollwright.evidence.retention import not_checked
from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import assert_intact
from rollwright.evidence.views import connect, query_text
from rollwright.record.tables import CONTRACT_TABLES

__all__ = ["CheckReport", "Finding", "check"]

_LEDGER_FAULTS = """SELECT concat('group ', group_id, ' slot ', slot, ' attempt ', attempt),
  'the slot was trained ' || count(*) || ' times' FROM ledger WHERE state = 'trained' GROUP BY group_id, slot, attempt
  HAVING count(*) > 1"""
_ORPHANS = """SELECT concat({name}, ' ', trajectory_id), 'it belongs to no trajectory' FROM {table}
  WHERE trajectory_id NOT IN (SELECT trajectory_id FROM trajectories) GROUP BY ALL"""
_BLOBS = """SELECT DISTINCT sha256 FROM (SELECT unnest(artifacts, recursive := true) FROM trajectories)
  UNION SELECT DISTINCT sha256 FROM tensors WHERE data IS NULL
  UNION SELECT DISTINCT result_sha256 FROM tool_calls WHERE retention = 'blob'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fault, with its place."""

    place: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What was found, and what could not be looked at."""

    findings: tuple[Finding, ...]
    not_checked: tuple[str, ...]
    num_commits: int
    num_receipts: int

    @property
    def is_sound(self) -> bool:
        """True where nothing is wrong with what can be checked."""
        return not self.findings


def check(path: Path) -> CheckReport:
    """Check a run folder: files against digests, keys, references, the ledger, and the audit of every gradient.

    Args:
        path: a run folder.

    Returns:
        Findings (none: all that can be checked is right), and one sentence for each thing that the run's retention
        leaves unchecked.
    """
    folder = RunFolder.open(path)
    altered = _altered(folder)
    retention = folder.manifest.receipts
    if altered:
        said = ("the tables were not read, because files differ from their digests.",)
        return CheckReport(findings=altered, not_checked=said, num_commits=len(folder.commits), num_receipts=0)
    with connect(path, verification="sizes") as connection:
        findings = (
            *_twice(connection),
            *(Finding(place=p, text=t) for p, t in _pairs(connection, _LEDGER_FAULTS)),
            *_orphans(connection),
            *_missing_blobs(connection, folder),
            *audit(connection, retention),
        )
        num_receipts = int(str(_rows(connection, "SELECT count(*) FROM receipts")[0][0]))
    return CheckReport(
        findings=findings,
        not_checked=not_checked(retention),
        num_commits=len(folder.commits),
        num_receipts=num_receipts,
    )


def audit(connection: duckdb.DuckDBPyConnection, retention: Retention) -> tuple[Finding, ...]:
    """The audit query, as far as the retention allows; no finding: every gradient is covered."""
    rows = _rows(connection, query_text("audit_sums" if retention == "sums" else "audit"))
    return tuple(Finding(place=str(row[0]), text=_audit_text(row)) for row in rows)


def _audit_text(row: tuple[object, ...]) -> str:
    place, due, found, faults = row
    if str(place).split(" ")[0].isdigit():
        return _update_text(due, found, faults)
    if due is None:
        return f"it has receipts of step {found}, and no slot of the ledger was trained with it"
    if faults is None:
        return f"the ledger says trained in step {due}, and it has no receipt"
    return f"the ledger says trained in step {due}; receipts are of {faults} steps, the first {found}"


def _update_text(due: object, found: object, faults: object) -> str:
    if due is None:
        return "receipts without the metric weight_sum: nothing says what their weights must sum to"
    if faults is None:
        return f"the metric weight_sum says {due}, and there are no receipts"
    if faults:
        return f"{faults} receipts weigh what they must not, or twice, or not token by token"
    return f"weights sum to {found}, and the denominator says {due}"


def _altered(folder: RunFolder) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for commit in folder.commits:
        for shard in commit.shards:
            try:
                assert_intact(folder.path, shard)
            except ShardError as error:
                found.append(Finding(place=shard.path, text=str(error)))
    return tuple(found)


def _twice(connection: duckdb.DuckDBPyConnection) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for table in CONTRACT_TABLES:
        key = ", ".join(table.key)
        sql = f"SELECT concat_ws(' ', {key}), count(*) FROM {table.name} GROUP BY {key} HAVING count(*) > 1"
        found += [
            Finding(place=f"{table.name} {place}", text=f"the key stands {count} times")
            for place, count in _pairs(connection, sql)
        ]
    return tuple(found)


def _orphans(connection: duckdb.DuckDBPyConnection) -> tuple[Finding, ...]:
    return tuple(
        Finding(place=place, text=text)
        for table in ("segments", "tensors", "tool_calls", "verdicts", "receipts")
        for place, text in _pairs(connection, _ORPHANS.format(table=table, name=f"'{table}'"))
    )


def _missing_blobs(connection: duckdb.DuckDBPyConnection, folder: RunFolder) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for (sha256,) in _rows(connection, _BLOBS):
        try:
            folder.blob(str(sha256))
        except EvidenceError as error:
            found.append(Finding(place=f"blobs/{sha256}", text=str(error)))
    return tuple(found)


def _rows(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[object, ...]]:
    return connection.execute(sql).fetchall()


def _pairs(connection: duckdb.DuckDBPyConnection, sql: str) -> list[tuple[str, str]]:
    return [(str(row[0]), str(row[1])) for row in _rows(connection, sql)]
