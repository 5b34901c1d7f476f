"""Shards: one Parquet file a table and commit, with its digest; text by dictionary, floats split by byte, zstd.

A file is small and has many columns, so little is written for each: bounds of the key alone, by which a query skips
files.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rollwright.evidence.errors import ShardError
from rollwright.evidence.manifest import SCHEMA_VERSION
from rollwright.record.columns import arrow_schema
from rollwright.record.tables import DOUBLE, FLOAT, TEXT, ColumnType, ListOf, MapOf, Scalar, StructOf, Table

__all__ = ["Shard", "assert_intact", "assert_whole", "file_sha256", "parquet_bytes", "read_shard"]

_WAY_OUT = (
    "Restore it from a copy of the run, or move its commit and the later ones to commits/abandoned and resume from a "
    "checkpoint before them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """One committed file."""

    table: str
    path: str
    """Below the run folder: `segments/000041.parquet`."""
    sha256: str
    num_bytes: int
    num_rows: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How the leaves of a table are encoded, by their paths."""

    text: list[str]
    encodings: dict[str, str]


def parquet_bytes(table: Table, rows: pa.Table) -> bytes:
    """The file of one shard; equal rows give equal bytes.

    Args:
        table: the columns.
        rows: in the schema of `table`.
    """
    layout = _layout(table)
    stream = pa.BufferOutputStream()
    pq.write_table(
        rows.replace_schema_metadata(
            {"rollwright.schema_version": str(SCHEMA_VERSION), "rollwright.table": table.name}
        ),
        stream,
        compression="zstd",
        use_dictionary=layout.text,
        write_statistics=list(table.key),
        column_encoding=layout.encodings,
        store_schema=False,
    )
    return stream.getvalue().to_pybytes()


def read_shard(root: Path, shard: Shard, table: Table) -> pa.Table:
    """The rows of a shard, after its bytes were compared with its digest.

    Raises:
        ShardError: when the file is missing, truncated or altered.
    """
    content = _content(root, shard)
    _compare(root, shard, len(content), hashlib.sha256(content).hexdigest())
    rows = pq.ParquetFile(pa.BufferReader(content)).read(use_threads=False)
    return rows.cast(arrow_schema(table))


def assert_intact(root: Path, shard: Shard) -> None:
    """Compare a shard's file with its digest.

    Raises:
        ShardError: when the file is missing, truncated or altered.
    """
    path = root / shard.path
    if not path.is_file():
        raise _missing(root, shard)
    _compare(root, shard, path.stat().st_size, file_sha256(path))


def assert_whole(root: Path, shard: Shard) -> None:
    """Compare the size of a shard's file, which costs no reading.

    Raises:
        ShardError: when the file is missing or of another size.
    """
    path = root / shard.path
    if not path.is_file():
        raise _missing(root, shard)
    _compare(root, shard, path.stat().st_size, shard.sha256)


def file_sha256(path: Path) -> str:
    """sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _content(root: Path, shard: Shard) -> bytes:
    try:
        return (root / shard.path).read_bytes()
    except FileNotFoundError:
        raise _missing(root, shard) from None


def _missing(root: Path, shard: Shard) -> ShardError:
    return ShardError(f"{root / shard.path} is missing: a commit lists it with {shard.num_rows} rows. {_WAY_OUT}")


def _compare(root: Path, shard: Shard, num_bytes: int, sha256: str) -> None:
    if num_bytes != shard.num_bytes:
        what = f"has {num_bytes:,} bytes where {shard.num_bytes:,} were committed"
    elif sha256 != shard.sha256:
        what = f"was altered: its sha256 is {sha256[:12]}… where {shard.sha256[:12]}… was committed"
    else:
        return
    raise ShardError(f"{root / shard.path} {what}. {_WAY_OUT}")


@cache
def _layout(table: Table) -> _Layout:
    leaves = [leaf for column in table.columns for leaf in _leaves(column.name, column.type)]
    return _Layout(
        text=[path for path, of in leaves if of == TEXT],
        encodings={path: "BYTE_STREAM_SPLIT" for path, of in leaves if of in (FLOAT, DOUBLE)},
    )


def _leaves(path: str, of: ColumnType) -> list[tuple[str, Scalar]]:
    match of:
        case Scalar():
            return [(path, of)]
        case ListOf():
            return _leaves(f"{path}.list.element", of.item)
        case StructOf():
            return [leaf for name, inner in of.fields for leaf in _leaves(f"{path}.{name}", inner)]
        case MapOf():
            return [(f"{path}.key_value.key", of.key), (f"{path}.key_value.value", of.value)]
