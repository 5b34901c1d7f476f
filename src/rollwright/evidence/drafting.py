"""From the records of a step to the tables of its commit."""

import hashlib
import operator
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rollwright.evidence.commits import CommitKind
from rollwright.evidence.manifest import Retention
from rollwright.evidence.retention import keep_receipts
from rollwright.record import EvaluationRow, LedgerRow, Metric, Receipt, ScoredTrajectory
from rollwright.record.codec import (
    ScoredVerdict,
    encode_evaluations,
    encode_ledger,
    encode_metrics,
    encode_receipts,
    encode_trajectories,
    encode_verdicts,
)
from rollwright.record.tables import EVALUATIONS, LEDGER, METRICS, RECEIPTS, VERDICTS

__all__ = ["CommitRows", "draft_tables", "ordered_ledger"]

_PLACE = operator.attrgetter("group_id", "slot", "attempt")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitRows:
    """What one commit adds to a run."""

    kind: CommitKind
    step: int
    """Counted from 1 over all stages; 0 holds the first evaluation. For a later command: the step it looked at."""
    trajectories: Sequence[ScoredTrajectory] = ()
    """With their verdicts, which are scoring 0."""
    rescored: Sequence[ScoredVerdict] = ()
    """Verdicts of a later scoring."""
    receipts: Sequence[Receipt] = ()
    ledger: Sequence[LedgerRow] = ()
    """In the order in which they happened; their `seq` is given here."""
    metrics: Sequence[Metric] = ()
    evaluations: Sequence[EvaluationRow] = ()
    blobs: Sequence[bytes] = ()
    """Results of tools that are kept as blobs; rows name them by sha256."""


def draft_tables(
    rows: CommitRows, retention: Retention, first_seq: int, known_tasks: Container[str]
) -> tuple[Mapping[str, pa.Table], Mapping[str, bytes]]:
    """The tables of a commit, and the blobs they name.

    Args:
        rows: what to commit.
        retention: what receipts keep.
        first_seq: number of the first ledger row.
        known_tasks: ids of tasks that the run's own commits hold already.
    """
    encoded = encode_trajectories(rows.trajectories, known_tasks)
    tables = dict(encoded.tables)
    if rows.rescored:
        tables[VERDICTS.name] = pa.concat_tables([tables[VERDICTS.name], encode_verdicts(rows.rescored)])
    tables[RECEIPTS.name] = keep_receipts(encode_receipts(rows.receipts), retention)
    tables[LEDGER.name] = _numbered(encode_ledger(ordered_ledger(rows.ledger)), first_seq)
    tables[METRICS.name] = encode_metrics(rows.metrics)
    tables[EVALUATIONS.name] = encode_evaluations(rows.evaluations)
    blobs = {**encoded.blobs, **{hashlib.sha256(b).hexdigest(): b for b in rows.blobs}}
    return tables, blobs


def ordered_ledger(rows: Sequence[LedgerRow]) -> tuple[LedgerRow, ...]:
    """Rows of a step by (group, slot, attempt, order of states): who finished first does not show."""
    return tuple(sorted(rows, key=_PLACE))


def _numbered(ledger: pa.Table, first_seq: int) -> pa.Table:
    seq = pa.array(np.arange(first_seq, first_seq + ledger.num_rows, dtype=np.int64))
    return ledger.set_column(0, ledger.schema.field("seq"), seq)
