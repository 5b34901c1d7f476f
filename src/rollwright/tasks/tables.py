"""Tables of rows as plain values: how a database begins, which changes are wanted, and how two states differ.

    {"sales.orders": {"columns": ["id", "item", "status"], "rows": [[482, "bolt", "open"]]}}

is how tables stand in a task and in what an episode leaves. Every table has a whole number `id` as its first column.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json

__all__ = [
    "Cell",
    "Change",
    "Table",
    "Tables",
    "apply_changes",
    "difference",
    "read_changes",
    "read_tables",
    "without_columns",
]

Cell = None | int | float | str
_SHOWN = 12
"""Differing rows that are told one by one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of equal columns, by id."""

    columns: tuple[str, ...]
    """The first is `id`."""
    rows: Mapping[int, tuple[Cell, ...]] = field(default_factory=dict[int, tuple[Cell, ...]])
    """Each as long as the columns and with its id in front."""

    def __post_init__(self) -> None:
        """Refuse rows that are none of this table."""
        if not self.columns or self.columns[0] != "id" or len(set(self.columns)) != len(self.columns):
            raise TaskError(f"columns {list(self.columns)}: they must differ, and the first must be 'id'")
        for key, row in self.rows.items():
            if len(row) != len(self.columns) or row[0] != key or isinstance(row[0], bool):
                raise TaskError(f"row {key} is {list(row)}; it needs {len(self.columns)} cells, the id in front")

    def row(self, key: int) -> Mapping[str, Cell]:
        """A row by column."""
        return dict(zip(self.columns, self.rows[key], strict=True))

    def json(self) -> Mapping[str, Json]:
        """For canonical JSON; rows by id."""
        return {"columns": self.columns, "rows": [self.rows[key] for key in sorted(self.rows)]}


Tables = Mapping[str, Table]
"""By name, `section.table`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to become of one row."""

    table: str
    key: int | None
    """None: a new row, whatever its id will be."""
    cells: Mapping[str, Cell] | None
    """New values by column, all but `id` for a new row. None: the row is to go."""

    def json(self) -> Mapping[str, Json]:
        """For canonical JSON."""
        return {"table": self.table, "id": self.key, "cells": self.cells}


def read_tables(value: Json) -> Tables:
    """Read tables from JSON.

    Raises:
        TaskError: where it is none.
    """
    if not isinstance(value, Mapping):
        raise TaskError("tables must be a map of name to {columns, rows}")
    found: dict[str, Table] = {}
    for name, given in value.items():
        columns = given.get("columns") if isinstance(given, Mapping) else None
        rows = given.get("rows") if isinstance(given, Mapping) else None
        if (
            not _is_list(columns)
            or not _is_list(rows)
            or not all(_is_list(row) and row for row in cast("list[Json]", rows))
        ):
            raise TaskError(f"table {name} needs `columns` (a list of names) and `rows` (a list of lists)")
        read = [tuple(row) for row in cast("Sequence[Sequence[Cell]]", rows)]
        by_key = {cast("int", row[0]): row for row in read}
        if len(by_key) != len(read) or not all(type(key) is int for key in by_key):
            raise TaskError(f"table {name}: every row begins with its id, a whole number of its own")
        found[name] = Table(columns=tuple(str(c) for c in cast("Sequence[Json]", columns)), rows=by_key)
    return found


def read_changes(value: Json) -> tuple[Change, ...]:
    """Read wanted changes from JSON: a list of {table, id, cells}.

    Raises:
        TaskError: where it is none.
    """
    if not _is_list(value):
        raise TaskError("changes must be a list of {table, id, cells}")
    found: list[Change] = []
    for given in cast("Sequence[Json]", value):
        if not isinstance(given, Mapping) or set(given) != {"table", "id", "cells"}:
            raise TaskError(f"a change needs table, id and cells, and nothing else: {given!r}")
        table, key, cells = given["table"], given["id"], given["cells"]
        fits = isinstance(table, str) and (key is None or type(key) is int) and (cells is None or _is_map(cells))
        if not fits or (key is None and cells is None):
            raise TaskError(f"a change is of one row of one table, or a new row: {given!r}")
        found.append(
            Change(
                table=cast("str", table), key=cast("int | None", key), cells=cast("Mapping[str, Cell] | None", cells)
            )
        )
    return tuple(found)


def apply_changes(tables: Tables, changes: Sequence[Change]) -> Tables:
    """The state in which all changes are made; new rows get the ids behind the largest.

    Raises:
        TaskError: for a change of a row or a column that there is not.
    """
    rows = {name: dict(table.rows) for name, table in tables.items()}
    for change in changes:
        table = tables.get(change.table)
        if table is None:
            raise TaskError(f"a change is of table {change.table!r}; there are {', '.join(tables) or 'none'}")
        if foreign := set(change.cells or {}) - set(table.columns[1:]):
            raise TaskError(f"table {change.table} has no column {sorted(foreign)[0]!r} that can be changed")
        held = rows[change.table]
        if change.key is None:
            key = max(held, default=0) + 1
            given = {**dict.fromkeys(table.columns), **(change.cells or {}), "id": key}
            held[key] = tuple(given[column] for column in table.columns)
        elif change.key not in held:
            raise TaskError(f"table {change.table} has no row {change.key}")
        elif change.cells is None:
            del held[change.key]
        else:
            before = dict(zip(table.columns, held[change.key], strict=True))
            held[change.key] = tuple({**before, **change.cells}[column] for column in table.columns)
    return {name: Table(columns=table.columns, rows=rows[name]) for name, table in tables.items()}


def without_columns(table: Table, names: Sequence[str]) -> Table:
    """The table without some of its columns; names that it does not have are no matter."""
    kept = [place for place, column in enumerate(table.columns) if column not in names]
    rows = {key: tuple(row[place] for place in kept) for key, row in table.rows.items()}
    return Table(columns=tuple(table.columns[place] for place in kept), rows=rows)


def difference(wanted: Tables, found: Tables, *, initial: Tables) -> tuple[str, ...]:
    """The rows in which two states differ, one line each; none where they are the same.

    Rows that are new since `initial` are compared without their ids: which number a new row got depends on the path.

    Args:
        wanted: the target.
        found: what an episode left.
        initial: how both began.

    Returns:
        Lines such as `sales.orders/482: status is 'open', wanted 'cancelled'`.
    """
    lines: list[str] = []
    for name in sorted({*wanted, *found}):
        if name not in wanted or name not in found or wanted[name].columns != found[name].columns:
            lines.append(f"{name}: not the same table")
            continue
        old: set[int] = set(initial[name].rows) if name in initial else set()
        for key in sorted(old):
            lines += _of_row(name, key, wanted[name], found[name])
        lines += _of_new_rows(name, old, wanted[name], found[name])
    if len(lines) > _SHOWN:
        return (*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more")
    return tuple(lines)


def _of_row(name: str, key: int, wanted: Table, found: Table) -> list[str]:
    if key not in wanted.rows or key not in found.rows:
        if key in wanted.rows:
            return [f"{name}/{key}: the row is gone"]
        return [f"{name}/{key}: the row should be gone"] if key in found.rows else []
    pairs = zip(wanted.columns, wanted.rows[key], found.rows[key], strict=True)
    return [f"{name}/{key}: {c} is {is_!r}, wanted {w!r}" for c, w, is_ in pairs if not _equal(w, is_)]


def _of_new_rows(name: str, old: set[int], wanted: Table, found: Table) -> list[str]:
    due = Counter(_typed(row[1:]) for key, row in wanted.rows.items() if key not in old)
    made = Counter(_typed(row[1:]) for key, row in found.rows.items() if key not in old)
    lines = [f"{name}: no new row {_shown(row)}" for row in (due - made).elements()]
    return lines + [f"{name}: a new row {_shown(row)} that nobody asked for" for row in (made - due).elements()]


def _typed(row: tuple[Cell, ...]) -> tuple[tuple[str, Cell], ...]:
    return tuple((type(cell).__name__, cell) for cell in row)


def _shown(row: tuple[tuple[str, Cell], ...]) -> str:
    return repr([cell for _, cell in row])


def _equal(one: Cell, other: Cell) -> bool:
    return type(one) is type(other) and one == other


def _is_list(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _is_map(value: Json) -> bool:
    return isinstance(value, Mapping)
