"""A database of one episode: SQLite in memory, a section (`sales`, `support`, …) a database of its own.

Values reach SQL as parameters alone; names of tables and columns come from the task. All writes go through `change`,
`insert` and `delete`, which note what was touched.
"""

import re
import sqlite3
from collections.abc import Mapping, Sequence

from rollwright.record import EnvironmentBrokenError, canonical_json
from rollwright.tasks import Cell, Table, Tables

__all__ = ["FINAL_STATE", "Database"]

FINAL_STATE = "final_state.json"
"""The artifact: {"tables": …, "writes": [[table, id], …]} as canonical JSON."""
_NAME = re.compile(r"[a-z][a-z_]{0,30}")
_LARGEST = 2**63 - 1


class Database:
    """Opened by an episode and closed with it."""

    def __init__(self, tables: Tables, writes: Sequence[tuple[str, int]] = ()) -> None:
        """Make the tables and fill them.

        Raises:
            EnvironmentBrokenError: for names that are none, or more sections than SQLite takes.
        """
        self._columns = {name: table.columns for name, table in tables.items()}
        self._writes = list(writes)
        _check_names(tables)
        self._connection = sqlite3.connect(":memory:", isolation_level=None)
        try:
            for section in sorted({name.split(".")[0] for name in tables}):
                self._connection.execute(f"ATTACH ':memory:' AS {section}")
            for name, table in tables.items():
                others = "".join(f", {column}" for column in table.columns[1:])
                self._connection.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY{others})")
                marks = ", ".join("?" * len(table.columns))
                self._connection.executemany(f"INSERT INTO {name} VALUES ({marks})", list(table.rows.values()))
        except sqlite3.Error as error:
            self._connection.close()
            raise EnvironmentBrokenError(f"the tables of the task make no database: {error}") from error

    @property
    def writes(self) -> Sequence[tuple[str, int]]:
        """Table and id of every row that was written, in order, undone or not."""
        return tuple(self._writes)

    def row(self, table: str, key: int) -> Mapping[str, Cell] | None:
        """A row by column, or None."""
        if abs(key) > _LARGEST:
            return None
        found = self._connection.execute(f"SELECT * FROM {table} WHERE id = ?", (key,)).fetchone()
        return None if found is None else dict(zip(self._columns[table], found, strict=True))

    def rows(self, table: str, **equal: Cell) -> list[Mapping[str, Cell]]:
        """The rows whose columns have these values, by id."""
        where = " AND ".join(f"{column} = ?" for column in equal) or "1"
        found = self._connection.execute(f"SELECT * FROM {table} WHERE {where} ORDER BY id", tuple(equal.values()))
        return [dict(zip(self._columns[table], row, strict=True)) for row in found]

    def change(self, table: str, key: int, **cells: Cell) -> None:
        """Set columns of a row."""
        names = ", ".join(f"{column} = ?" for column in cells)
        self._connection.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*cells.values(), key))
        self._writes.append((table, key))

    def insert(self, table: str, **cells: Cell) -> int:
        """A new row; its id is one above the largest."""
        names, marks = ", ".join(cells), ", ".join("?" * len(cells))
        made = self._connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(cells.values()))
        key = made.lastrowid or 0
        self._writes.append((table, key))
        return key

    def delete(self, table: str, key: int) -> None:
        """Take a row away."""
        self._connection.execute(f"DELETE FROM {table} WHERE id = ?", (key,))
        self._writes.append((table, key))

    def tables(self) -> Tables:
        """All rows as they are now."""
        return {
            name: Table(
                columns=columns,
                rows={row[0]: tuple(row) for row in self._connection.execute(f"SELECT * FROM {name} ORDER BY id")},
            )
            for name, columns in self._columns.items()
        }

    def final_state(self) -> Mapping[str, bytes]:
        """What verifiers are left with."""
        tables = {name: table.json() for name, table in self.tables().items()}
        return {FINAL_STATE: canonical_json({"tables": tables, "writes": self._writes}).encode()}

    def close(self) -> None:
        """Forget all of it."""
        self._connection.close()


def _check_names(tables: Tables) -> None:
    for name, table in tables.items():
        parts = name.split(".")
        if len(parts) != 2 or not all(_NAME.fullmatch(part) for part in (*parts, *table.columns)):
            raise EnvironmentBrokenError(
                f"table {name!r} with columns {list(table.columns)}: a table is named section.table, and all names are "
                "of small letters and underscores"
            )
