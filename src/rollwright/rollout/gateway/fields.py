"""Reads a JSON body that anybody may have sent: within bounds, field by field, with the name of what is wrong."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import cast

from rollwright.rollout.gateway.errors import ApiError

__all__ = ["Fields", "read_body", "text_of_parts"]

DEEPEST = 64
"""Levels of objects and lists within each other."""
MOST_ITEMS = 2048
"""Of one list: each message costs the template a rendering."""


def read_body(raw: bytes) -> "Fields":
    """The object in a body.

    Raises:
        ApiError: 400 where it is no JSON object, is nested too deeply, or holds halves of characters.
    """
    try:
        found = cast(object, json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ApiError(400, f"We could not parse the JSON body of your request: {reason}") from error
    _check(found)
    return Fields(found)


class Fields:
    """One object; null is absent. What was not read when `refuse_rest` is called is unknown."""

    def __init__(self, given: object, path: str = "") -> None:
        if not isinstance(given, dict):
            raise _wrong(path or "body", "an object", given)
        self._given = cast("Mapping[str, object]", given)
        self._path = path
        self._read: set[str] = set()

    @property
    def given(self) -> Mapping[str, object]:
        """All of it, as it came."""
        return self._given

    def raw(self, name: str) -> object:
        """Whatever stands there."""
        self._read.add(name)
        return self._given.get(name)

    def text(self, name: str) -> str:
        """A text that must be there."""
        found = self.text_or_none(name)
        if found is None:
            raise ApiError(400, f"Missing required parameter: '{self.at(name)}'.", param=self.at(name))
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text."""
        found = self.raw(name)
        if found is not None and not isinstance(found, str):
            raise _wrong(self.at(name), "a string", found)
        return found

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number within bounds, both included."""
        found = self.raw(name)
        if found is None:
            return None
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise _wrong(self.at(name), "a number", found)
        if not least <= found <= most:
            raise self.refused(name, f"expected a value between {least:g} and {most:g}, but got {found!r:.40} instead")
        return float(found)

    def whole(self, name: str, least: int, most: int) -> int | None:
        """A whole number within bounds, both included."""
        found = self.raw(name)
        if isinstance(found, bool) or not isinstance(found, (int, type(None))):
            raise _wrong(self.at(name), "an integer", found)
        self.number(name, least, most)
        return found

    def flag(self, name: str, *, default: bool = False) -> bool:
        """True or false."""
        found = self.raw(name)
        if found is None:
            return default
        if not isinstance(found, bool):
            raise _wrong(self.at(name), "a boolean", found)
        return found

    def items(self, name: str) -> Sequence[object]:
        """A list; an absent one is empty."""
        found = self.raw(name)
        if found is None:
            return ()
        if not isinstance(found, list):
            raise _wrong(self.at(name), "an array", found)
        items = cast("list[object]", found)
        if len(items) > MOST_ITEMS:
            raise self.refused(name, f"expected at most {MOST_ITEMS} items, but got {len(items)} instead")
        return items

    def objects(self, name: str) -> list["Fields"]:
        """A list of objects."""
        return [Fields(item, f"{self.at(name)}[{at}]") for at, item in enumerate(self.items(name))]

    def inner(self, name: str) -> "Fields | None":
        """An object."""
        found = self.raw(name)
        return None if found is None else Fields(found, self.at(name))

    def skip(self, *names: str) -> None:
        """These change nothing here, and are known to the API."""
        self._read.update(names)

    def refuse_unless(self, name: str, *allowed: object) -> None:
        """Refuse a field that stands and asks for more than can be had.

        Raises:
            ApiError: 400 with what is allowed.
        """
        found = self.raw(name)
        if found is not None and found not in allowed:
            due = ", ".join(json.dumps(one) for one in allowed) or "nothing"
            raise self.refused(name, f"this server takes {due} alone", code="unsupported_value")

    def refuse_rest(self) -> None:
        """Refuse what no reader knew.

        Raises:
            ApiError: 400 with the field's name.
        """
        unknown = next((name for name in self._given if name not in self._read), None)
        if unknown is not None:
            raise ApiError(
                400, f"Unknown parameter: '{self.at(unknown)[:200]}'.", param=self.at(unknown), code="unknown_parameter"
            )

    def refused(self, name: str, why: str, *, code: str = "invalid_value") -> ApiError:
        """An error at a field."""
        return ApiError(400, f"Invalid value for '{self.at(name)}': {why}.", param=self.at(name), code=code)

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self._path}.{name}" if self._path else name


def text_of_parts(fields: Fields, name: str, kinds: frozenset[str], joined: str) -> str:
    """A text, or a list of parts that hold text.

    Args:
        fields: that hold it.
        name: of the field; absent is no text.
        kinds: types of parts that are text.
        joined: what stands between parts.

    Raises:
        ApiError: 400 for parts of another type: there are only texts here.
    """
    found = fields.raw(name)
    if found is None or isinstance(found, str):
        return found or ""
    parts: list[str] = []
    for part in fields.objects(name):
        kind = part.text("type")
        if kind not in kinds:
            raise part.refused("type", f"this model takes text alone, but got {kind!r:.40}")
        parts.append(part.text("text"))
    return joined.join(parts)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _wrong(path: str, due: str, given: object) -> ApiError:
    kinds: tuple[tuple[type, str], ...] = (
        (dict, "an object"),
        (list, "an array"),
        (str, "a string"),
        (bool, "a boolean"),
        (type(None), "null"),
    )
    kind = next((name for kind, name in kinds if isinstance(given, kind)), "a number")
    message = f"Invalid type for '{path}': expected {due}, but got {kind} instead."
    return ApiError(400, message, param=path, code="invalid_type")


def _check(found: object) -> None:
    """Refuse depth that would exhaust the stack of whoever walks it, half characters, numbers without end."""
    level: list[object] = [found]
    for _ in range(DEEPEST):
        inner: list[object] = []
        for value in level:
            if isinstance(value, dict):
                for key, one in cast("Mapping[str, object]", value).items():
                    inner += (key, one)
            elif isinstance(value, list):
                inner += cast("list[object]", value)
            else:
                _check_plain(value)
        if not inner:
            return
        level = inner
    raise ApiError(400, f"The JSON body of your request is nested deeper than {DEEPEST} levels.")


def _check_plain(value: object) -> None:
    if isinstance(value, str) and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ApiError(400, "The body of your request holds halves of characters (lone surrogates).") from error
    if isinstance(value, float) and not math.isfinite(value):
        raise ApiError(400, "The body of your request holds a number that is not finite.")
