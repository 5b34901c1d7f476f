"""Strict equality of plain values: by type as well as by value, decided where no program can interfere."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

__all__ = ["EQUALITY_REVISION", "ValueRule", "same_value"]

EQUALITY_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRule:
    """What counts as the same value."""

    relative: float = 1e-9
    """Of two numbers of which the expected one is a float. Integers are equal or not."""
    absolute: float = 0.0
    sequences: Literal["strict", "alike"] = "strict"
    """`alike`: a list and a tuple of the same items are the same."""


def same_value(given: object, expected: object, rule: ValueRule) -> bool:
    """Whether a value is the expected one.

    True is not 1, "1" is not 1, 1.0 is not 1; but 1 is 1.0 where a float is expected, as a type checker has it, and NaN
    is NaN. Sets and the keys of maps compare exactly.

    Args:
        given: of plain types, at most MAX_DEPTH deep, as `read_value` makes them.
        expected: likewise.
        rule: the tolerance, and whether tuples are lists.
    """
    if isinstance(expected, float):
        return _same_number(given, expected, rule)
    if isinstance(expected, int) and not isinstance(expected, bool) and rule.absolute > 0:
        return _same_number(given, float(expected), rule)
    if isinstance(expected, (list, tuple)):
        kinds = (list, tuple) if rule.sequences == "alike" else (type(cast("object", expected)),)
        return isinstance(given, kinds) and _same_items(cast("Any", given), cast("Any", expected), rule)
    if isinstance(expected, Mapping):
        return isinstance(given, Mapping) and _same_maps(cast("Any", given), cast("Any", expected), rule)
    if isinstance(expected, (set, frozenset)):
        return isinstance(given, (set, frozenset)) and _keys(cast("Any", given)) == _keys(cast("Any", expected))
    return type(given) is type(expected) and given == expected


def _same_number(given: object, expected: float, rule: ValueRule) -> bool:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return False
    if math.isnan(expected):
        return math.isnan(given)
    try:
        return math.isclose(given, expected, rel_tol=rule.relative, abs_tol=rule.absolute)
    except OverflowError:
        return False  # An integer beyond all floats.


def _same_items(given: Sequence[object], expected: Sequence[object], rule: ValueRule) -> bool:
    return len(given) == len(expected) and all(
        same_value(one, other, rule) for one, other in zip(given, expected, strict=True)
    )


def _same_maps(given: Mapping[object, object], expected: Mapping[object, object], rule: ValueRule) -> bool:
    ours, theirs = ({_typed(key): value for key, value in each.items()} for each in (given, expected))
    return ours.keys() == theirs.keys() and all(same_value(ours[key], theirs[key], rule) for key in theirs)


def _keys(items: Sequence[object]) -> frozenset[object]:
    return frozenset(map(_typed, items))


def _typed(value: object) -> object:
    """A hashable stand-in that tells True from 1."""
    if isinstance(value, (tuple, frozenset)):
        inner = [_typed(item) for item in cast("Sequence[object]", value)]
        return (
            type(cast("object", value)).__name__,
            frozenset(inner) if isinstance(value, frozenset) else tuple(inner),
        )
    return (type(value).__name__, value)
