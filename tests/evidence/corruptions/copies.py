"""A copy of a run that a forger works on: Parquet and JSON alone, nothing of the program that reads it."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["CORRUPTIONS", "Copy", "Corruption", "Row", "careful", "careless"]

Row = dict[str, Any]
Change = Callable[["Copy"], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Copy:
    """A run folder that may be changed."""

    root: Path

    def rows(self, table: str, commit: int) -> list[Row]:
        """All rows of one shard."""
        return pq.ParquetFile(self._shard(table, commit)).read().to_pylist()

    def write(self, table: str, commit: int, rows: list[Row]) -> None:
        """Write a shard anew; `mend` tells the commits."""
        path = self._shard(table, commit)
        schema = pq.ParquetFile(str(path)).schema_arrow
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, compression="zstd")

    def edit(self, table: str, commit: int, changes: Row, **key: object) -> None:
        """Change the rows that have this key; there must be some."""
        rows = self.rows(table, commit)
        chosen = [row for row in rows if is_at(row, key)]
        assert chosen, f"no row of {table} has {key}"
        for row in chosen:
            row.update(changes)
        self.write(table, commit, rows)

    def row(self, table: str, commit: int, **key: object) -> Row:
        """The only row that has this key."""
        [row] = [row for row in self.rows(table, commit) if is_at(row, key)]
        return row

    def drop(self, table: str, commit: int, **key: object) -> None:
        """Take out the rows that have this key; there must be some."""
        rows = self.rows(table, commit)
        kept = [row for row in rows if not is_at(row, key)]
        assert len(kept) < len(rows), f"no row of {table} has {key}"
        self.write(table, commit, kept)

    def add(self, table: str, commit: int, row: Row) -> None:
        """Append a row."""
        self.write(table, commit, [*self.rows(table, commit), row])

    def set_item(self, table: str, commit: int, column: str, item: tuple[int, float], **key: object) -> None:
        """Set one element of a list in the only row that has this key."""
        values = list(self.row(table, commit, **key)[column])
        values[item[0]] = item[1]
        self.edit(table, commit, {column: values}, **key)

    def shift(self, table: str, commit: int, column: str, item: tuple[int, float], **key: object) -> None:
        """Add to one element of a list in the only row that has this key."""
        place, by = item
        self.set_item(table, commit, column, (place, self.row(table, commit, **key)[column][place] + by), **key)

    def edit_json(self, name: str, change: Callable[[Any], None]) -> None:
        """Change a JSON file."""
        path = self.root / name
        content = json.loads(path.read_bytes())
        change(content)
        path.write_text(json.dumps(content, indent=1) + "\n")

    def mend(self) -> None:
        """Make every digest right again: of shards, of the manifest, and of each commit in the next."""
        manifest, before = _sha256(self.root / "manifest.json"), None
        for path in sorted((self.root / "commits").glob("*.json")):
            commit = json.loads(path.read_bytes())
            for shard in commit["shards"]:
                file = self.root / shard["path"]
                shard |= {"sha256": _sha256(file), "num_bytes": file.stat().st_size}
                shard["num_rows"] = pq.ParquetFile(file).metadata.num_rows
            commit |= {"manifest_sha256": manifest, "previous_sha256": before}
            path.write_text(json.dumps(commit, indent=1) + "\n")
            before = _sha256(path)

    def _shard(self, table: str, commit: int) -> Path:
        return self.root / table / f"{commit:06d}.parquet"


@dataclass(frozen=True, slots=True)
class Corruption:
    """A change of a run's files."""

    change: Change
    """Makes it; gives patterns, each of which some finding must hold in its place or its text."""
    mends_digests: bool

    @property
    def name(self) -> str:
        """Of the function."""
        return self.change.__name__

    def plant(self, copy: Copy) -> tuple[str, ...]:
        """Change the copy.

        Returns:
            What the findings must name.
        """
        places = self.change(copy)
        if self.mends_digests:
            copy.mend()
        return places


CORRUPTIONS: list[Corruption] = []


def careless(change: Change) -> Change:
    """Of one who leaves the digests as they were."""
    CORRUPTIONS.append(Corruption(change, mends_digests=False))
    return change


def careful(change: Change) -> Change:
    """Of one who makes every digest right again."""
    CORRUPTIONS.append(Corruption(change, mends_digests=True))
    return change


def is_at(row: Row, key: Row) -> bool:
    """Whether the row has these values."""
    return all(row[name] == value for name, value in key.items())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
