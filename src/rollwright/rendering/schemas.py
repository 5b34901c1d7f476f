"""Tool schemas in the form that chat templates take."""

import json
from collections.abc import Mapping
from typing import cast

from rollwright.rendering.errors import RenderingError

__all__ = ["tool_definitions"]


def tool_definitions(tools: Mapping[str, str]) -> tuple[Mapping[str, object], ...]:
    """Schemas as `{"type": "function", "function": {...}}`.

    Args:
        tools: name to JSON: the whole definition, its `function` part, or the schema of the parameters alone.

    Raises:
        RenderingError: for a schema that is not a JSON object.
    """
    return tuple(_definition(name, text) for name, text in tools.items())


def _definition(name: str, text: str) -> Mapping[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise RenderingError(f"the schema of tool {name!r} is not JSON: {error}. Give a JSON object.") from error
    if not isinstance(found, dict):
        raise RenderingError(f"the schema of tool {name!r} is {text[:60]!r}; give a JSON object.")
    schema = cast(dict[str, object], found)
    if "function" in schema:
        return schema
    if "parameters" in schema:
        return {"type": "function", "function": {"name": name, **schema}}
    function: dict[str, object] = {"name": name, "description": schema.get("description", "")}
    function["parameters"] = {key: value for key, value in schema.items() if key != "description"}
    return {"type": "function", "function": function}
