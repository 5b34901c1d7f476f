"""Values of programs as plain JSON that keeps their types, and when two of them are equal.

What a program under test computed leaves its sandbox in this form and is compared outside, so that no `__eq__`, pickle
or patched assertion of the program takes part. `plain_value` is complete in itself: its source also runs in sandboxes.
"""

from collections.abc import Sequence
from typing import Any, cast

from rollwright.tasks.payload import Json

__all__ = ["PLAIN_VALUES_REVISION", "plain_value", "same_value"]

PLAIN_VALUES_REVISION = 1
_MAX_DEPTH = 40


def plain_value(value: "Any", depth: int = 0) -> "list[Any]":  # noqa: ANN401, PLR0911 - a row a type
    """The value as a list that begins with its type; a value of any other type is `["other", name]`."""
    name = type(value).__name__
    if depth > 20:
        return ["deep"]
    if type(value) in (type(None), bool, str):
        return [name, value]
    if type(value) is int:
        return [name, hex(value)] if value.bit_length() <= 4096 else ["huge"]
    if type(value) is float:
        return [name, value.hex()]
    if type(value) in (dict,):
        pairs = [[plain_value(key, depth + 1), plain_value(one, depth + 1)] for key, one in value.items()]
        return [name, sorted(pairs, key=repr)]
    if type(value) in (list, tuple):
        return [name, [plain_value(one, depth + 1) for one in value]]
    if type(value) in (set, frozenset):
        return ["set", sorted((plain_value(one, depth + 1) for one in value), key=repr)]
    return ["other", name]


def same_value(given: Json, expected: Json, depth: int = 0) -> bool:
    """Whether two plain values are equal: a whole number may be written as a float, True is not 1.

    Args:
        given: of the program, anything.
        expected: written by `plain_value`, or `["raises", name]`.
        depth: of the recursion.
    """
    if depth > _MAX_DEPTH or not _is_tagged(given) or not _is_tagged(expected):
        return False
    one, other = cast("Sequence[Json]", given), cast("Sequence[Json]", expected)
    if one[0] in ("int", "float") and other[0] in ("int", "float"):
        return _number(one) is not None and _number(one) == _number(other)
    if one[0] != other[0] or len(one) != 2 or len(other) != 2:
        return False
    if one[0] in ("list", "tuple", "set", "dict"):
        return _same_parts(one[1], other[1], depth)
    return one[0] not in ("deep", "huge", "other") and type(one[1]) is type(other[1]) and one[1] == other[1]


def _same_parts(given: Json, expected: Json, depth: int) -> bool:
    if not isinstance(given, list) or not isinstance(expected, list) or len(given) != len(expected):
        return False
    pairs = zip(given, expected, strict=True)
    return all(
        same_value(one, other, depth + 1) if _is_tagged(other) else _same_parts(one, other, depth + 1)
        for one, other in pairs
    )


def _is_tagged(value: Json) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0 and isinstance(value[0], str)


def _number(tagged: Sequence[Json]) -> int | float | None:
    """The number, None for what is none (a NaN equals nothing)."""
    text = tagged[1] if len(tagged) == 2 else None
    if not isinstance(text, str) or len(text) > 1100:
        return None
    try:
        number = int(text, 16) if tagged[0] == "int" else float.fromhex(text)
    except (ValueError, OverflowError):
        return None
    return None if number != number else number
