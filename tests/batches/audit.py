"""The contract's audit query over what a step would commit, on the codec's own tables."""

from collections.abc import Sequence
from pathlib import Path

import duckdb

from rollwright.record import EligibleRow, LedgerRow, Metric, Receipt, ScoredTrajectory
from rollwright.record.codec import encode_ledger, encode_metrics, encode_receipts, encode_trajectories
from tests.batches.episodes import NOW

SQL = Path(__file__).parent.parent / "data" / "contracts"


def connect(
    members: Sequence[ScoredTrajectory],
    receipts: Sequence[Receipt],
    metrics: Sequence[Metric],
    eligible: Sequence[EligibleRow],
    *,
    step: int = 1,
) -> duckdb.DuckDBPyConnection:
    """A database with the views of a run; every train slot among `members` is trained in `step`."""
    db = duckdb.connect()
    for name, table in encode_trajectories(members).tables.items():
        db.register(name, table)
    db.register("receipts", encode_receipts(receipts))
    db.register("metrics", encode_metrics(metrics))
    db.register("ledger", encode_ledger(_trained(members, step)))
    db.execute("CREATE TABLE eligible(model TEXT, component TEXT, origin TEXT, policy TEXT)")
    for row in eligible:
        db.execute("INSERT INTO eligible VALUES (?, ?, ?, ?)", [row.model, row.component, row.origin, row.policy])
    for statement in (SQL / "macros.sql").read_text(encoding="utf-8").split(";"):
        if statement.strip():
            db.execute(statement)
    return db


def faults(db: duckdb.DuckDBPyConnection) -> list[tuple]:
    """What the audit query finds; nothing, where every gradient is covered."""
    return db.execute((SQL / "audit.sql").read_text(encoding="utf-8")).fetchall()


def _trained(members: Sequence[ScoredTrajectory], step: int) -> list[LedgerRow]:
    return [
        LedgerRow(
            seq=seq,
            recorded_at=NOW,
            step=step,
            group_id=t.group_id,
            slot=t.slot,
            attempt=t.attempt,
            task_id=t.task.task_id,
            task_source=t.task.source,
            state="trained",
            rule=None,
            trajectory_id=t.trajectory_id,
            successor=None,
            policy_version=step - 1,
        )
        for seq, t in enumerate(m.trajectory for m in members if m.trajectory.purpose == "train")
    ]
