"""What a run keeps of its receipts: `full`, `runs` (no per-token floats of models) or `sums` (no per-token values)."""

from collections.abc import Mapping
from typing import assert_never

import pyarrow as pa

from rollwright.evidence.manifest import Retention
from rollwright.record.columns import arrow_type
from rollwright.record.tables import RECEIPTS

__all__ = ["dropped_columns", "keep_receipts", "not_checked"]

_STREAMS = (
    "proximal_logprobs",
    "current_logprobs",
    "reference_logprobs",
    "teacher_logprobs",
    "predicted_values",
    "value_targets",
)
_RUNS = ("advantage", "token_weight", "correction", "flags")


def dropped_columns(retention: Retention) -> tuple[str, ...]:
    """Columns of receipts that are stored as null."""
    match retention:
        case "full":
            return ()
        case "runs":
            return _STREAMS
        case "sums":
            return (*_STREAMS, *_RUNS)
        case _:
            assert_never(retention)


def keep_receipts(receipts: pa.Table, retention: Retention) -> pa.Table:
    """Receipts with what the retention drops set to null."""
    for name in dropped_columns(retention):
        index = receipts.column_names.index(name)
        empty = pa.nulls(receipts.num_rows, arrow_type(RECEIPTS.column(name).type))
        receipts = receipts.set_column(index, receipts.schema.field(name), empty)
    return receipts


def not_checked(retention: Retention) -> tuple[str, ...]:
    """What nobody can check in a run that kept this much, one sentence each."""
    said: Mapping[Retention, tuple[str, ...]] = {
        "full": (),
        "runs": (
            "ratios, clipping and losses cannot be recomputed: evidence.receipts = runs dropped the log-probabilities "
            "and values of each token.",
        ),
        "sums": (
            "ratios, clipping and losses cannot be recomputed: evidence.receipts = sums dropped the log-probabilities "
            "and values of each token.",
            "whether the weights of an update sum to what its denominator says, and whether each token has one weight, "
            "cannot be checked: evidence.receipts = sums dropped the weights.",
        ),
    }
    return said[retention]
