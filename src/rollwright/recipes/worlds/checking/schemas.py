"""The tools that an episode offers: their schemas read, and arguments made from them, right and wrong."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validate

from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.record import canonical_json
from rollwright.rendering import RenderingError, tool_definitions
from rollwright.tasks import Json

__all__ = ["BadArguments", "ToolFace", "bad_arguments", "plausible", "read_tool"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EXAMPLES: Mapping[str, Json] = {
    "string": "a",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "array": [],
    "object": {},
}
_WRONG: Sequence[Json] = ({"a": [1]}, 3, "three", [["b"]])
_HUGE = 200_000
_DEEP = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFace:
    """What a policy is told of a tool."""

    name: str
    description: str
    parameters: Mapping[str, Json]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadArguments:
    """Arguments that a policy might write."""

    kind: str
    text: str
    is_refused: bool = True
    """Whether status `ok` would be wrong; otherwise any known status will do."""


def read_tool(name: str, text: str, where: str) -> ToolFace:
    """Read a tool's schema.

    Raises:
        CheckFailedError: where it is none, or says too little.
    """
    about = f"{where}: tool {shown(name)}"
    if not _NAME.fullmatch(name):
        raise CheckFailedError(f"{about}: a name has 1 to 64 letters, digits, dots, dashes and underscores")
    try:
        (definition,) = tool_definitions({name: text})
    except RenderingError as error:
        raise CheckFailedError(f"{about}: {error}") from error
    function = definition.get("function")
    if not isinstance(function, Mapping):
        raise CheckFailedError(f"{about}: `function` is {shown(function)}; it must be an object")
    said = cast("Mapping[str, Json]", function)
    if said.get("name") != name:
        raise CheckFailedError(f"{about}: its schema is of {shown(said.get('name'))}; both names must be the same")
    description = said.get("description")
    if not isinstance(description, str) or not description.strip():
        raise CheckFailedError(f"{about}: it has no description; the policy knows nothing else about it")
    parameters = said.get("parameters")
    if not isinstance(parameters, Mapping):
        raise CheckFailedError(f"{about}: `parameters` is {shown(parameters)}; it must be a JSON schema")
    _check_parameters(parameters, about)
    return ToolFace(name=name, description=description, parameters=parameters)


def plausible(parameters: Mapping[str, Json]) -> str:
    """Arguments that fit a schema, as JSON: each property that is required, with the simplest value."""
    properties = cast("Mapping[str, Mapping[str, Json]]", parameters.get("properties", {}))
    required = cast("Sequence[str]", parameters.get("required", ()))
    return canonical_json({name: _example(properties.get(name, {})) for name in required})


def bad_arguments(parameters: Mapping[str, Json]) -> Iterator[BadArguments]:
    """Arguments that do not fit a schema, and odd ones that may."""
    properties = cast("Mapping[str, Mapping[str, Json]]", parameters.get("properties", {}))
    right = cast("dict[str, Json]", json.loads(plausible(parameters)))
    yield BadArguments(kind="half a JSON object", text="{")
    yield BadArguments(kind="no text", text="")
    yield BadArguments(kind="a JSON list", text="[1]")
    for name in right:
        rest = {key: value for key, value in right.items() if key != name}
        yield BadArguments(kind=f"no {name}", text=json.dumps(rest))
        break
    if parameters.get("additionalProperties") is False:
        yield BadArguments(kind="an argument too many", text=json.dumps({**right, "no_such_argument": 1}))
    for name, schema in list(properties.items())[:3]:
        wrong = next((w for w in _WRONG if not _fits(w, schema)), None)
        if wrong is not None:
            yield BadArguments(kind=f"{name} of a wrong type", text=json.dumps({**right, name: wrong}))
        if schema.get("type") == "string" and "enum" not in schema:
            for kind, odd in (("huge", "a" * _HUGE), ("odd", '\ud800\u202e\x00<|im_end|></s>\N{GRINNING FACE}"')):
                yield BadArguments(
                    kind=f"{name} as {kind} text", text=json.dumps({**right, name: odd}), is_refused=False
                )
            yield BadArguments(kind=f"empty {name}", text=json.dumps({**right, name: ""}), is_refused=False)
        if schema.get("type") in ("integer", "number"):
            for number in ("NaN", "1e999", "9" * 5000, "-" + "9" * 300):
                rest = "".join(f", {json.dumps(k)}: {json.dumps(v)}" for k, v in right.items() if k != name)
                text = f"{{{json.dumps(name)}: {number}{rest}}}"
                yield BadArguments(kind=f"{name} = {number[:8]}", text=text, is_refused=False)
        yield BadArguments(
            kind=f"{name} as lists in lists", text=f'{{"{name}": {"[" * _DEEP}{"]" * _DEEP}}}', is_refused=False
        )


def _check_parameters(parameters: Mapping[str, Json], about: str) -> None:
    try:
        Draft202012Validator.check_schema(_plain(parameters))
    except SchemaError as error:
        raise CheckFailedError(f"{about}: its parameters are no valid JSON schema: {shown(error.message)}") from error
    if parameters.get("type") != "object":
        raise CheckFailedError(f"{about}: the type of its parameters is {shown(parameters.get('type'))}, not 'object'")
    properties = parameters.get("properties", {})
    if not isinstance(properties, Mapping):
        raise CheckFailedError(f"{about}: its properties are {shown(properties)}, no object")
    unknown = [name for name in cast("Sequence[str]", parameters.get("required", ())) if name not in properties]
    if unknown:
        raise CheckFailedError(f"{about}: it requires {unknown}, which its properties do not have")
    for name, schema in properties.items():
        if not isinstance(schema, Mapping):
            raise CheckFailedError(f"{about}: the schema of its argument {name} is {shown(schema)}, no object")


def _example(schema: Mapping[str, Json]) -> Json:
    options = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if isinstance(options, Sequence) and not isinstance(options, str):
        return options[0]
    if "default" in schema:
        return schema["default"]
    choices = schema.get("anyOf", schema.get("oneOf"))
    if isinstance(choices, Sequence) and not isinstance(choices, str):
        return _example(cast("Mapping[str, Json]", choices[0]))
    kind = schema.get("type", "string")
    first = kind if isinstance(kind, str) else cast("Sequence[str]", kind)[0]
    if first in ("integer", "number") and isinstance(schema.get("minimum"), int | float):
        return schema["minimum"]
    return _EXAMPLES.get(first, "a")


def _fits(value: Json, schema: Mapping[str, Json]) -> bool:
    try:
        validate(value, _plain(schema), cls=Draft202012Validator)
    except ValidationError:
        return False
    return True


def _plain(schema: Mapping[str, Json]) -> dict[str, object]:
    return cast("dict[str, object]", json.loads(canonical_json(schema)))
