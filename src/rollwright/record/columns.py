"""Columns of records and Arrow arrays into each other, by the types of `tables.py`; nothing here knows a table.

A column is taken from a field of all records at once: this runs in every step, and a tuple a row would cost more than
the rest. A row is a tuple of values in column order. A STRUCT is written from any record with those fields, and read as
what the caller makes of it; a list of numbers is a NumPy array, read-only when read.
"""

import operator
from collections.abc import Callable, Mapping, Sequence, Sized
from datetime import UTC, datetime
from functools import cache
from itertools import chain, repeat
from types import NoneType
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rollwright.record.arrays import Lists
from rollwright.record.errors import RecordError
from rollwright.record.run_length import RunLists
from rollwright.record.tables import (
    FLOAT,
    TEXT,
    TIMESTAMP,
    Column,
    ColumnType,
    ListOf,
    MapOf,
    Numbers,
    Scalar,
    StructOf,
    Table,
)

__all__ = [
    "Maker",
    "Values",
    "arrow_schema",
    "arrow_type",
    "as_field_map",
    "decode_column",
    "encode_columns",
    "encode_records",
    "encode_rows",
]

Maker = Callable[..., object]
"""Makes a record of a STRUCT's fields, given by name."""
Values = Sequence[object] | Lists | RunLists
"""Of one column: one a row, or the numbers of all rows at once."""

_INTEGERS: Mapping[str, type[np.signedinteger | np.unsignedinteger]] = {
    "BIGINT": np.int64,
    "INT": np.int32,
    "SMALLINT": np.int16,
    "USMALLINT": np.uint16,
}
_FLOATS: Mapping[str, type[np.floating]] = {"FLOAT": np.float32, "DOUBLE": np.float64}
_NO_NUMBERS: NDArray[np.float64] = np.zeros(0)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHARED = 4
"""Where a record stands in this many rows on average, it is looked for once."""
_SCALARS: Mapping[str, pa.DataType] = {
    "TEXT": pa.string(),
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "SMALLINT": pa.int16(),
    "USMALLINT": pa.uint16(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "BLOB": pa.binary(),
    "TIMESTAMP": pa.timestamp("us"),
}


@cache
def arrow_type(of: ColumnType) -> pa.DataType:
    """The Arrow type of a column type."""
    match of:
        case Scalar():
            return _SCALARS[of.sql]
        case ListOf():
            return pa.list_(arrow_type(of.item))
        case StructOf():
            return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in of.fields])
        case MapOf():
            return pa.map_(arrow_type(of.key), arrow_type(of.value))


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """The Arrow schema of a table, nullability included."""
    return pa.schema([pa.field(c.name, arrow_type(c.type), nullable=c.is_nullable) for c in table.columns])


def encode_rows(table: Table, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    """Rows as one Arrow table.

    Args:
        table: the columns.
        rows: one tuple a row, values in column order.

    Raises:
        RecordError: for a value that the column cannot hold (missing, of another type, out of range, not finite).
    """
    if not rows:
        return _encode_columns(table, [()] * len(table.columns))
    return _encode_columns(table, list(zip(*rows, strict=True)))


def encode_records(table: Table, records: Sequence[object], **given: Sequence[object]) -> pa.Table:
    """Records as one Arrow table, a row each.

    Args:
        table: the columns.
        records: each has the columns as fields, but for those that are given.
        given: values of a column, one a record, by its name.

    Raises:
        RecordError: for a value that the column cannot hold (missing, of another type, out of range, not finite).
    """
    if not records:
        return _encode_columns(table, [()] * len(table.columns))
    named = [column.name for column in table.columns]
    own = iter(_fields(records, tuple(name for name in named if name not in given)))
    return _encode_columns(table, [given[name] if name in given else next(own) for name in named])


def encode_columns(table: Table, columns: Mapping[str, Values], num_rows: int) -> pa.Table:
    """Columns as one Arrow table.

    Args:
        table: the columns.
        columns: their values by name; null where a column is not among them.
        num_rows: that each has.

    Raises:
        RecordError: for a value that the column cannot hold (missing, of another type, out of range, not finite).
    """
    missing = [None] * num_rows
    return _encode_columns(table, [columns.get(column.name, missing) for column in table.columns])


def decode_column(column: Column, array: pa.ChunkedArray, make: Maker) -> list[object]:
    """The values of one column.

    Args:
        column: its type.
        array: as stored.
        make: called with the fields of each STRUCT; `as_field_map` keeps them as a map.

    Returns:
        One value a row. A FLOAT is the shortest decimal that rounds to the stored number, so 0.7 comes back as 0.7.
    """
    return _decode(column.type, array.combine_chunks(), make)


def as_field_map(**fields: object) -> Mapping[str, object]:
    """A STRUCT as a map of its fields."""
    return fields


def _encode_columns(table: Table, columns: Sequence[Values]) -> pa.Table:
    arrays = [_encode_column(table, c, values) for c, values in zip(table.columns, columns, strict=True)]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(table))


def _fields(records: Sequence[object], names: tuple[str, ...]) -> list[tuple[object, ...]]:
    """The fields of that name, each of all records; the records are looked at once."""
    if not records:
        return [()] * len(names)
    if len(names) == 1:
        return [tuple(map(operator.attrgetter(*names), records))]
    return list(zip(*map(operator.attrgetter(*names), records), strict=True))


def _encode_column(table: Table, column: Column, values: Values) -> pa.Array:
    try:
        array = _encode(column.type, values, column.numbers)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise RecordError(f"{table.name}.{column.name}: {error}") from error
    if array.null_count and not column.is_nullable:
        row = array.is_valid().to_pylist().index(False)
        raise RecordError(f"{table.name}.{column.name} is missing in row {row}; it is never null.")
    return array


def _encode(of: ColumnType, values: Values, numbers: Numbers) -> pa.Array:
    match of, values:
        case ListOf(item=Scalar() as item), Lists():
            return _list_array(item, values, numbers)
        case StructOf(), RunLists():
            fields = zip(of.fields, (values.n, values.v), strict=True)
            children = [_encode(inner, part, numbers) for (_, inner), part in fields]
            return pa.StructArray.from_arrays(children, fields=_fields_of(of))
        case _, Lists() | RunLists():
            raise TypeError("expected one value a row and was given lists of numbers")
        case _:
            return _encode_values(of, values, numbers)


def _encode_values(of: ColumnType, values: Sequence[object], numbers: Numbers) -> pa.Array:
    if _are_missing(values):
        return pa.nulls(len(values), arrow_type(of))
    match of:
        case Scalar():
            return _encode_scalars(of, values, numbers)
        case ListOf(item=Scalar() as item) if item.sql in _INTEGERS or item.sql in _FLOATS:
            return _encode_arrays(item, values, numbers)
        case ListOf():
            return _encode_lists(of, values, numbers)
        case StructOf():
            return _encode_structs(of, values, numbers)
        case MapOf():
            return _encode_maps(values, of)


def _are_missing(values: Sequence[object]) -> bool:
    return all(map(operator.is_, values, repeat(None)))


def _encode_scalars(of: Scalar, values: Sequence[object], numbers: Numbers) -> pa.Array:
    if of == TEXT:
        return _encode_text(values)
    if of == TIMESTAMP:
        return _encode_times(cast("Sequence[datetime | None]", values))
    if of.sql in _INTEGERS:
        _check_kinds(values, (int, np.integer))
    array = pa.array(values, type=arrow_type(of))
    if of.sql in _FLOATS and numbers != Numbers.ANY:
        given = array.drop_null() if array.null_count else array
        _check_numbers(cast("NDArray[np.floating]", given.to_numpy()), numbers)
    return array


def _check_kinds(values: Sequence[object], allowed: tuple[type, ...]) -> None:
    # Arrow would cut 1.5 to 1 and take True for 1, silently.
    for kind in set(map(type, values)):
        if kind is bool or not issubclass(kind, (*allowed, NoneType)):
            raise TypeError(f"expected {allowed[0].__name__} and was given {kind.__name__}")


def _encode_text(values: Sequence[object]) -> pa.Array:
    first = values[0] if values else None
    if isinstance(first, str) and len(values) > 1 and values.count(first) == len(values):
        # Of a step, most columns of text say the same in every row.
        return pa.repeat(_encode_text([first])[0], len(values))
    _check_kinds(values, (str,))
    try:
        return pa.array(values, type=pa.string())
    except UnicodeEncodeError:
        # What a tool echoed may hold half a surrogate pair; one such episode must not stop a run, so it is escaped.
        texts = cast("Sequence[str | None]", values)
        whole = [None if t is None else t.encode("utf-8", "backslashreplace").decode() for t in texts]
        return pa.array(whole, type=pa.string())


def _encode_times(times: Sequence[datetime | None]) -> pa.Array:
    wrong = next((t for t in times if t is not None and t.tzinfo is None), None)
    if wrong is not None:
        raise ValueError(f"the time {wrong} has no zone; give UTC, as datetime.now(UTC) does")
    # Arrow takes durations in half the time of times with a zone.
    since = [None if t is None else t - _EPOCH for t in times]
    return pa.array(since, type=pa.duration("us")).view(arrow_type(TIMESTAMP))


def _check_numbers(values: NDArray[np.floating], numbers: Numbers) -> None:
    if numbers == Numbers.FINITE and not np.isfinite(values).all():
        wrong = values[~np.isfinite(values)][0]
        raise ValueError(f"{wrong} among the numbers; only finite ones are stored here, and undefined is null")
    if numbers == Numbers.NOT_NAN and np.isnan(values).any():
        raise ValueError("NaN among the numbers; undefined is null, never NaN and never 0")


def _encode_arrays(item: Scalar, values: Sequence[object], numbers: Numbers) -> pa.Array:
    is_given, given = _given(values)
    arrays = cast("Sequence[NDArray[np.generic]]", given)
    # An empty list has no numbers, and so no say in their type.
    parts = [a for a in arrays if len(a)]
    flat = np.concatenate(parts) if parts else _NO_NUMBERS
    return _list_array(item, Lists(lengths=_lengths(arrays, is_given), values=flat, is_given=is_given), numbers)


def _list_array(item: Scalar, lists: Lists, numbers: Numbers) -> pa.Array:
    return pa.ListArray.from_arrays(
        pa.array(_offsets(lists.lengths)),
        pa.array(_cast(item, lists.values, numbers)),
        type=arrow_type(ListOf(item)),
        mask=None if lists.is_given is None else _mask(lists.is_given),
    )


def _given(values: Sequence[object]) -> tuple[NDArray[np.bool_], Sequence[object]]:
    """Where a value is given, and those that are."""
    is_given = np.fromiter(map(operator.is_not, values, repeat(None)), np.bool_, len(values))
    return is_given, values if is_given.all() else [v for v in values if v is not None]


def _mask(is_given: NDArray[np.bool_]) -> pa.Array | None:
    """True where a value is missing; None where none is."""
    return None if is_given.all() else pa.array(~is_given)


def _lengths(lists: Sequence[Sized], is_given: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Of the list of each row; 0 where none is given."""
    lengths = np.zeros(len(is_given), np.int32)
    lengths[is_given] = np.fromiter(map(len, lists), np.int32, len(lists))
    return lengths


def _offsets(lengths: NDArray[np.integer]) -> NDArray[np.int32]:
    """Where the list of each row begins and ends."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def _cast(item: Scalar, flat: NDArray[np.generic], numbers: Numbers) -> NDArray[np.generic]:
    if item.sql in _FLOATS:
        with np.errstate(over="ignore"):
            floats = flat.astype(_FLOATS[item.sql], copy=False)
        _check_numbers(floats, numbers)
        return floats
    kind = _INTEGERS[item.sql]
    if flat.dtype == kind:
        return flat
    if flat.dtype.kind == "f" and len(flat):
        raise TypeError(f"expected whole numbers and was given {flat.dtype}")
    whole = flat.astype(kind)
    if len(flat) and not np.array_equal(whole, flat):
        raise OverflowError(f"a number does not fit {item.sql}")
    return whole


def _encode_lists(of: ListOf, values: Sequence[object], numbers: Numbers) -> pa.Array:
    is_given, given = _given(values)
    lists = cast("Sequence[Sequence[object]]", given)
    flat = list(chain.from_iterable(lists))
    if any(map(operator.is_, flat, repeat(None))):
        raise ValueError("a list holds a null")
    return pa.ListArray.from_arrays(
        pa.array(_offsets(_lengths(lists, is_given))),
        _encode(of.item, flat, numbers),
        type=arrow_type(of),
        mask=_mask(is_given),
    )


def _encode_structs(of: StructOf, values: Sequence[object], numbers: Numbers) -> pa.Array:
    is_given, given = _given(values)
    # Many rows may share a record, as how their tokens were sampled: it is encoded once.
    is_shared = _SHARED * len(set(map(id, given))) <= len(given)
    distinct = {id(record): record for record in given} if is_shared else {}
    records = list(distinct.values()) if is_shared else given
    columns = _fields(records, tuple(name for name, _ in of.fields))
    children = [_encode(inner, column, numbers) for (_, inner), column in zip(of.fields, columns, strict=True)]
    array = pa.StructArray.from_arrays(children, fields=_fields_of(of))
    if len(records) == len(values):
        return array
    indices = np.zeros(len(values), np.int32)
    places = {name: place for place, name in enumerate(distinct)}
    indices[is_given] = [places[id(record)] for record in given] if is_shared else np.arange(len(given))
    return array.take(pa.array(indices, mask=~is_given))


@cache
def _fields_of(of: StructOf) -> list[pa.Field]:
    return [pa.field(name, arrow_type(inner)) for name, inner in of.fields]


def _encode_maps(values: Sequence[object], of: MapOf) -> pa.Array:
    is_given, given = _given(values)
    maps = cast("Sequence[Mapping[str, str]]", given)
    if len(maps) < len(values):
        rows = cast("Sequence[Mapping[str, str] | None]", values)
        return pa.array([None if m is None else sorted(m.items()) for m in rows], type=arrow_type(of))
    keys = [key for m in maps for key in (sorted(m) if len(m) > 1 else m)]
    items = [m[key] for m in maps for key in (sorted(m) if len(m) > 1 else m)]
    return pa.MapArray.from_arrays(
        pa.array(_offsets(_lengths(maps, is_given))),
        _encode_scalars(of.key, keys, Numbers.ANY),
        _encode_scalars(of.value, items, Numbers.ANY),
    )


def _decode(of: ColumnType, array: pa.Array, make: Maker) -> list[object]:
    match of:
        case Scalar():
            return _decode_scalars(of, array)
        case ListOf(item=Scalar() as item) if item.sql in _INTEGERS or item.sql in _FLOATS:
            values = cast("pa.ListArray", array).values.to_numpy(zero_copy_only=False)
            values.flags.writeable = False
            return [None if s is None else values[s] for s in _slices(array)]
        case ListOf():
            inner = _decode(of.item, cast("pa.ListArray", array).values, make)
            return [None if s is None else tuple(inner[s]) for s in _slices(array)]
        case StructOf():
            children = [
                _decode(t, child, make)
                for (_, t), child in zip(of.fields, cast("pa.StructArray", array).flatten(), strict=True)
            ]
            names = [name for name, _ in of.fields]
            valid = array.is_valid().to_pylist()
            rows = zip(*children, strict=True)
            return [
                make(**dict(zip(names, row, strict=True))) if v else None for v, row in zip(valid, rows, strict=True)
            ]
        case MapOf():
            maps = cast("list[list[tuple[str, str]] | None]", array.to_pylist())
            return [None if m is None else dict(m) for m in maps]


def _slices(array: pa.Array) -> list[slice | None]:
    bounds = cast("list[int]", cast("pa.ListArray", array).offsets.to_pylist())
    valid = array.is_valid().to_pylist()
    return [slice(a, b) if v else None for v, a, b in zip(valid, bounds[:-1], bounds[1:], strict=True)]


def _decode_scalars(of: Scalar, array: pa.Array) -> list[object]:
    values = array.to_pylist()
    if of == TIMESTAMP:
        times = cast("list[datetime | None]", values)
        return [None if t is None else t.replace(tzinfo=UTC) for t in times]
    if of == FLOAT:
        return [None if v is None else float(str(np.float32(cast("float", v)))) for v in values]
    return values
