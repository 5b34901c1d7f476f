"""Arguments of a call held against the schema of an MCP server's tool: nothing is fetched, and every pattern ends."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

import regex
from jsonschema import Draft202012Validator, SchemaError, ValidationError, validators
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.exceptions import Unresolvable

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.mcp_tools import McpTool
from rollwright.record import EnvironmentBrokenError, RecordError
from rollwright.tasks import Json

__all__ = ["ArgumentSchema"]

_PATTERN_S = 0.25


class ArgumentSchema:
    """The schema of one tool, ready to be asked."""

    def __init__(self, tool: McpTool) -> None:
        """Read the schema.

        Raises:
            EnvironmentSetupError: where it is none.
        """
        self._tool = tool.name
        try:
            self._text = tool.text()
            Draft202012Validator.check_schema(dict(tool.parameters))
        except (RecordError, SchemaError, RecursionError) as error:
            raise EnvironmentSetupError(
                f"the MCP server's tool {tool.name!r} has no schema of JSON Schema 2020-12: "
                f"{type(error).__name__}: {str(error)[:200]}. Mend the server, or leave the tool out by naming others"
            ) from error
        bounded = cast("Any", validators).extend(Draft202012Validator, {"pattern": _pattern})
        self._validator = cast("Validator", bounded(dict(tool.parameters), registry=cast("Any", Registry)()))

    @property
    def text(self) -> str:
        """The definition of the tool that chat templates take."""
        return self._text

    def read(self, text: str) -> Mapping[str, Json]:
        """Arguments that fit the schema.

        Raises:
            ValueError: with a sentence that the policy reads.
            EnvironmentBrokenError: where the schema itself cannot be followed.
        """
        arguments = _object_of(text)
        try:
            error = next(self._validator.iter_errors(arguments), None)
        except RecursionError:
            raise ValueError("the arguments lie too deep to be read") from None
        except (Unresolvable, regex.error) as broken:
            raise EnvironmentBrokenError(
                f"the schema of the MCP server's tool {self._tool!r} cannot be followed: {broken}"
            ) from broken
        if error is not None:
            place = ".".join(str(part) for part in error.absolute_path)
            raise ValueError(f"{f'argument {place}: ' if place else ''}{error.message[:200]}")
        return arguments


def _object_of(text: str) -> Mapping[str, Json]:
    try:
        arguments: object = json.loads(text, parse_constant=_refuse_constant)
        text.encode()
        json.dumps(arguments, ensure_ascii=False, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise ValueError("the arguments are not valid JSON") from None
    if not isinstance(arguments, dict):
        raise ValueError("the arguments must be a JSON object")
    return cast("Mapping[str, Json]", arguments)


def _pattern(_: Validator, pattern: str, instance: object, schema: object) -> Iterator[ValidationError]:
    """The check of `pattern`, which ends on every text."""
    if not isinstance(instance, str):
        return
    try:
        found = regex.search(pattern, instance, timeout=_PATTERN_S)
    except TimeoutError:
        yield ValidationError(f"the text takes too long to be held against {pattern!r}")
        return
    if not found:
        yield ValidationError(f"{instance[:60]!r} does not match {pattern!r}")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
