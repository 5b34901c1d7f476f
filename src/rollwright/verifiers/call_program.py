"""Plain values as JSON text, and the program that calls a function inside a sandbox and leaves its value there.

One file for both sides, so that they cannot drift apart: the verifier imports the functions, the sandbox runs the text.
It imports nothing of ours. What the expected value is never comes here: the value goes out as text and is compared
where the program cannot reach.

Beside JSON's own values: `{"$tuple": […]}`, `{"$set": […]}`, `{"$dict": [[key, value], …]}`, `{"$bytes": "hex"}`,
`{"$int": "hex"}`, `{"$float": "nan"}`, `{"$complex": [real, imaginary]}`.
"""

import json
import math
import os
import resource
import sys
import types
from typing import Any, NoReturn, cast

__all__ = ["MAX_DEPTH", "MAX_VALUES", "PlainValueError", "read_value", "write_value"]

MAX_DEPTH = 100
MAX_VALUES = 200_000
_SAFE_INTEGER = 2**63
_MAX_BITS = 1_000_000


class PlainValueError(ValueError):
    """A value that is no plain data, or too much of it."""


def write_value(value: object) -> Any:  # noqa: ANN401 - JSON
    """The value in the form above. Subclasses of plain types are written as what they are at heart."""
    return _write(value, [MAX_VALUES], MAX_DEPTH)


def read_value(written: Any) -> Any:  # noqa: ANN401 - JSON in, plain values out
    """The value that was written.

    Raises:
        PlainValueError: where the form is none of those above.
    """
    return _read(written, [MAX_VALUES], MAX_DEPTH)


def _write(value: Any, budget: list[int], depth: int) -> Any:  # noqa: ANN401, PLR0911 - a return a type
    _spend(budget, depth)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _SAFE_INTEGER else {"$int": _hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, str):
        _spend(budget, depth, len(value) // 8)
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        _spend(budget, depth, len(value) // 8)
        return {"$bytes": bytes(value).hex()}
    if isinstance(value, complex):
        return {"$complex": [_write(part, budget, depth - 1) for part in (value.real, value.imag)]}
    return _write_many(value, budget, depth - 1)


def _write_many(value: Any, budget: list[int], depth: int) -> Any:  # noqa: ANN401 - plain data
    if isinstance(value, list):
        return [_write(item, budget, depth) for item in cast("list[Any]", value)]
    if isinstance(value, tuple):
        return {"$tuple": [_write(item, budget, depth) for item in cast("tuple[Any, ...]", value)]}
    if isinstance(value, (set, frozenset)):
        return {"$set": [_write(item, budget, depth) for item in cast("set[Any]", value)]}
    if isinstance(value, dict):
        pairs = list(cast("dict[Any, Any]", value).items())
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
            return {str.__str__(key): _write(item, budget, depth) for key, item in pairs}
        return {"$dict": [[_write(key, budget, depth), _write(item, budget, depth)] for key, item in pairs]}
    raise PlainValueError(f"a {type(value).__name__} is no plain value")


def _read(written: Any, budget: list[int], depth: int) -> Any:  # noqa: ANN401 - plain data
    _spend(budget, depth)
    if isinstance(written, list):
        return [_read(item, budget, depth - 1) for item in cast("list[Any]", written)]
    if not isinstance(written, dict):
        return written
    named = cast("dict[str, Any]", written)
    if len(named) == 1:
        ((tag, inner),) = named.items()
        if tag.startswith("$"):
            try:
                return _read_tagged(tag, inner, budget, depth - 1)
            except (TypeError, ValueError, AttributeError) as error:
                raise PlainValueError(f"{tag} holds no such value: {error}") from error
    return {key: _read(item, budget, depth - 1) for key, item in named.items()}


def _read_tagged(tag: str, inner: Any, budget: list[int], depth: int) -> Any:  # noqa: ANN401, PLR0911 - a return a tag
    match tag:
        case "$tuple":
            return tuple(_read(item, budget, depth) for item in inner)
        case "$set":
            return {_frozen(_read(item, budget, depth)) for item in inner}
        case "$dict":
            return {_frozen(_read(key, budget, depth)): _read(item, budget, depth) for key, item in inner}
        case "$bytes":
            return bytes.fromhex(inner)
        case "$int":
            return int(inner, 16)
        case "$float":
            return float(inner)
        case "$complex":
            real, imaginary = (_read(part, budget, depth) for part in inner)
            return complex(real, imaginary)
        case _:
            raise PlainValueError(f"{tag} is no kind of value")


def _frozen(value: Any) -> Any:  # noqa: ANN401 - plain data
    return frozenset(cast("set[Any]", value)) if isinstance(value, set) else value


def _spend(budget: list[int], depth: int, cost: int = 1) -> None:
    budget[0] -= cost
    if depth < 0 or budget[0] < 0:
        raise PlainValueError(f"more than {MAX_VALUES} values or {MAX_DEPTH} levels")


def _hex(value: int) -> str:
    if value.bit_length() > _MAX_BITS:
        raise PlainValueError(f"an integer of {value.bit_length()} bits")
    return format(int(value), "x")


def _main() -> NoReturn:
    """Read a request, call, leave the value or the error in a file, and end before anything else can run."""
    request = json.load(sys.stdin)
    memory = request["memory_bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    reply = request["reply"]
    try:
        arguments = [read_value(item) for item in request["args"]]
        named = {name: read_value(item) for name, item in request["kwargs"].items()}
        function = _function(_loaded(request["source"]), request["entry_point"])
        answer = {"value": write_value(function(*arguments, **named))}
    except BaseException as error:  # noqa: BLE001 - whatever the program raises, an exit included
        answer = {"error": f"{type(error).__name__}: {error}"[:500]}
    with open(reply, "w", encoding="utf-8", errors="replace") as out:
        out.write(json.dumps(answer))
    os._exit(0)


def _loaded(source: str) -> types.ModuleType:
    module = types.ModuleType("solution")
    sys.modules["solution"] = module  # Dataclasses and pickles look their module up.
    exec(compile(source, "solution.py", "exec"), module.__dict__)  # noqa: S102 - what a sandbox is for
    return module


def _function(module: types.ModuleType, entry_point: str) -> Any:  # noqa: ANN401 - plain data
    """The named function, or the method of that name of a class `Solution`; without a name the only function."""
    names = module.__dict__
    if not entry_point:
        own = [
            each for each in names.values() if isinstance(each, types.FunctionType) and each.__module__ == "solution"
        ]
        if len(own) != 1:
            raise PlainValueError(f"{len(own)} functions where exactly one is looked for")
        return own[0]
    if entry_point in names:
        return names[entry_point]
    head, _, tail = entry_point.rpartition(".")
    return getattr(names[head or "Solution"](), tail)


if __name__ == "__main__":
    _main()
