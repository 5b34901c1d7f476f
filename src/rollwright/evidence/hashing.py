"""`content_hash`: one number for all that a run did, equal for two runs that did the same.

Of the run's own committed rows, sorted by key; without what was measured (timestamps, durations, metrics of time, rate
or memory). Files, commits and their number are not compared.
"""

import hashlib
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa

from rollwright.evidence.run_folder import RunFolder
from rollwright.evidence.shards import read_shard
from rollwright.record.columns import arrow_schema, as_field_map, decode_column
from rollwright.record.tables import STORED_TABLES, Table, is_measured_metric, sql_type

__all__ = ["content_hash", "table_hashes"]


def content_hash(path: Path) -> str:
    """sha256 over the tables of a run's own commits (those of its steps, not of later commands)."""
    whole = hashlib.sha256()
    for name, sha256 in table_hashes(path).items():
        whole.update(f"{name} {sha256}\n".encode())
    return whole.hexdigest()


def table_hashes(path: Path) -> Mapping[str, str]:
    """The hash of each table, by name: where two runs part, this names the table."""
    folder = RunFolder.open(path)
    found: dict[str, str] = {}
    for table in STORED_TABLES:
        shards = [s for c in folder.commits if c.kind == "step" for s in c.shards if s.table == table.name]
        parts = [read_shard(folder.path, s, table) for s in shards]
        rows = (
            pa.concat_tables(parts) if parts else pa.Table.from_arrays(_no_columns(table), schema=arrow_schema(table))
        )
        found[table.name] = _hash(table, _compared(table, rows))
    return found


def _no_columns(table: Table) -> list[pa.Array]:
    return [pa.nulls(0, field.type) for field in arrow_schema(table)]


def _compared(table: Table, rows: pa.Table) -> pa.Table:
    if table.name in ("metrics", "evaluations"):
        name_column = "name" if table.name == "metrics" else "metric"
        names = cast("list[str]", rows.column(name_column).to_pylist())
        units = cast("list[str]", rows.column("unit").to_pylist()) if table.name == "metrics" else [""] * len(names)
        keep = [not is_measured_metric(name, unit) for name, unit in zip(names, units, strict=True)]
        rows = rows.filter(np.array(keep, dtype=np.bool_))
    keys = [rows.column(name).to_pylist() for name in table.key]
    by_key = list(zip(*keys, strict=True))
    order = sorted(range(rows.num_rows), key=lambda i: by_key[i])
    return rows.take(np.array(order, dtype=np.int64))


def _hash(table: Table, rows: pa.Table) -> str:
    hasher = hashlib.sha256(f"{table.name} {rows.num_rows}\n".encode())
    for column in table.columns:
        if not column.is_measured:
            hasher.update(f"{column.name} {sql_type(column.type)}\n".encode())
            hasher.update(b"".join(map(_canonical, decode_column(column, rows.column(column.name), as_field_map))))
    return hasher.hexdigest()


def _canonical(value: object) -> bytes:
    """Bytes that only this value has; floats and arrays by their bits."""
    match value:
        case np.ndarray():
            kind, content = value.dtype.str, value.tobytes()
        case bytes():
            kind, content = "bytes", value
        case str():
            kind, content = "text", value.encode()
        case float():
            kind, content = "float", struct.pack("<d", value)
        case tuple():
            kind, content = "list", b"".join(map(_canonical, cast("tuple[object, ...]", value)))
        case Mapping():
            fields = cast("Mapping[str, object]", value)
            kind, content = "map", b"".join(_canonical(key) + _canonical(fields[key]) for key in sorted(fields))
        case _:
            kind, content = "number", str(value).encode()
    return b"%s %d:%s" % (kind.encode(), len(content), content)
