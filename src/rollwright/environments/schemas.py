"""Tools from typed Python functions: the JSON schema comes from the signature and the Google docstring."""

import inspect
import json
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Union, cast, get_args, get_origin, get_type_hints

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.record import canonical_json
from rollwright.tasks import Json

__all__ = ["ArgumentError", "Arguments", "FunctionSchema", "read_arguments", "schema_of"]

Arguments = Mapping[str, Json]
_PRIMITIVES: Mapping[type, str] = types.MappingProxyType(
    {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
)
_SECTION = re.compile(r"^[A-Z][A-Za-z ]*:\s*$")
_ENTRY = re.compile(r"^(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")


_IN_WORDS = types.MappingProxyType(
    {
        "string": "a string",
        "integer": "a whole number",
        "number": "a number",
        "boolean": "true or false",
        "null": "null",
        "array": "a list",
        "object": "an object",
    }
)


class ArgumentError(ValueError):
    """Arguments that do not fit a tool; the sentence is shown to the policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionSchema:
    """What a function takes, as JSON Schema says it."""

    name: str
    description: str
    properties: Mapping[str, Mapping[str, Json]]
    required: tuple[str, ...]

    def text(self) -> str:
        """The definition that chat templates take, as canonical JSON."""
        parameters: Json = {
            "type": "object",
            "properties": self.properties,
            "required": self.required,
            "additionalProperties": False,
        }
        function: Json = {"name": self.name, "description": self.description, "parameters": parameters}
        return canonical_json({"type": "function", "function": function})


def schema_of(function: Callable[..., object]) -> FunctionSchema:
    """The schema of a typed function.

    Args:
        function: with annotated, named parameters and a Google docstring; allowed are str, int, float, bool, None,
            Literal, list, dict with text keys, and unions of these.

    Raises:
        EnvironmentSetupError: for a function that says too little about itself.
    """
    name = function.__name__
    hints = get_type_hints(function)
    summary, described = _read_docstring(inspect.getdoc(function) or "")
    if not summary:
        raise EnvironmentSetupError(f"tool {name} has no docstring; its first lines tell the policy what it does")
    properties: dict[str, Mapping[str, Json]] = {}
    required: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise EnvironmentSetupError(f"tool {name}: parameter {parameter.name} must be a plain named parameter")
        if parameter.name not in hints:
            raise EnvironmentSetupError(f"tool {name}: parameter {parameter.name} has no type annotation")
        if parameter.name not in described:
            raise EnvironmentSetupError(f"tool {name}: the docstring's Args do not describe {parameter.name}")
        schema = dict(_type_schema(hints[parameter.name], f"tool {name}: parameter {parameter.name}"))
        schema["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        properties[parameter.name] = schema
    return FunctionSchema(name=name, description=summary, properties=properties, required=tuple(required))


def read_arguments(schema: FunctionSchema, text: str) -> Arguments:
    """Parse and check the arguments of a call.

    Args:
        schema: of the tool.
        text: JSON, as the policy wrote it.

    Returns:
        The arguments by name; a whole number given for a float comes back as a float.

    Raises:
        ArgumentError: saying what was wrong and what is allowed.
    """
    try:
        loaded = cast("Json", json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        raise ArgumentError("the arguments are not valid JSON") from None
    if not isinstance(loaded, Mapping):
        raise ArgumentError("the arguments must be a JSON object")
    names = ", ".join(schema.properties) or "none"
    for name in loaded:
        if name not in schema.properties:
            raise ArgumentError(f"unknown argument {_shown(name)}; allowed: {names}")
    for name in schema.required:
        if name not in loaded:
            raise ArgumentError(f"missing argument {name}")
    return {name: _fitted(value, schema.properties[name], name) for name, value in loaded.items()}


def _fitted(value: Json, schema: Mapping[str, Json], name: str) -> Json:
    """The value, or ArgumentError where it does not fit its schema."""
    options = cast("Sequence[Mapping[str, Json]]", schema.get("anyOf", (schema,)))
    for option in options:
        if _fits(value, option):
            if option.get("type") == "number" and isinstance(value, int | float):
                return float(value)
            return value
    wanted = " or ".join(_wanted(option) for option in options)
    raise ArgumentError(f"argument {name} must be {wanted}")


def _fits(value: Json, schema: Mapping[str, Json]) -> bool:
    if "enum" in schema:
        return any(type(value) is type(one) and value == one for one in cast("Sequence[Json]", schema["enum"]))
    kind = schema["type"]
    inner = cast("Mapping[str, Json]", schema.get("items", schema.get("additionalProperties", {})))
    if isinstance(value, list):
        return kind == "array" and all(_fits(one, inner) for one in value)
    if isinstance(value, Mapping):
        return kind == "object" and all(_fits(one, inner) for one in value.values())
    if isinstance(value, int | float) and not isinstance(value, bool):
        return kind == "number" and _is_finite(value) or kind == "integer" and isinstance(value, int)
    return kind == _PRIMITIVES[type(value)]


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def _wanted(schema: Mapping[str, Json]) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(json.dumps(one) for one in cast("Sequence[Json]", schema["enum"]))
    return _IN_WORDS[str(schema["type"])]


def _type_schema(hint: object, where: str) -> Mapping[str, Json]:
    if isinstance(hint, type) and hint in _PRIMITIVES:
        return {"type": _PRIMITIVES[hint]}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin is Union or origin is types.UnionType:
        return {"anyOf": [_type_schema(one, where) for one in inner]}
    if origin is list and len(inner) == 1:
        return {"type": "array", "items": _type_schema(inner[0], where)}
    if origin is dict and len(inner) == 2 and inner[0] is str:
        return {"type": "object", "additionalProperties": _type_schema(inner[1], where)}
    raise EnvironmentSetupError(
        f"{where} has type {hint}; allowed are str, int, float, bool, None, Literal, list[...], dict[str, ...] "
        "and unions of these"
    )


def _read_docstring(text: str) -> tuple[str, Mapping[str, str]]:
    """Summary and, by name, what the section Args says."""
    summary: list[str] = []
    described: dict[str, str] = {}
    section, current = "", ""
    for line in text.splitlines():
        if _SECTION.match(line):
            section, current = line.strip(), ""
        elif section == "" and line.strip():
            summary.append(line.strip())
        elif section == "Args:" and line.strip():
            entry = _ENTRY.match(line.strip())
            if entry and (len(line) - len(line.lstrip()) <= 4):
                current = entry[1]
                described[current] = entry[2].strip()
            elif current:
                described[current] = f"{described[current]} {line.strip()}".strip()
    return " ".join(summary), described


def _unique_keys(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else name[:40] + "…")
