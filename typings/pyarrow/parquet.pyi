# The part of pyarrow.parquet that this project uses.
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyarrow import BufferOutputStream, BufferReader, Schema, Table

class ColumnChunkMetaData:
    path_in_schema: str
    encodings: tuple[str, ...]
    compression: str
    is_stats_set: bool

class RowGroupMetaData:
    num_columns: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_rows: int
    def row_group(self, i: int) -> RowGroupMetaData: ...
    metadata: Mapping[bytes, bytes] | None

class ParquetFile:
    metadata: FileMetaData
    schema_arrow: Schema
    def __init__(self, source: BufferReader | Path | str) -> None: ...
    def read(self, columns: Sequence[str] | None = ..., use_threads: bool = ...) -> Table: ...

def read_table(source: Path | str) -> Table: ...
def write_table(
    table: Table,
    where: BufferOutputStream | Path | str,
    *,
    compression: str = ...,
    compression_level: int | None = ...,
    use_dictionary: bool | Sequence[str] = ...,
    use_byte_stream_split: bool | Sequence[str] = ...,
    column_encoding: Mapping[str, str] | None = ...,
    write_statistics: bool | Sequence[str] = ...,
    store_schema: bool = ...,
) -> None: ...
