"""Typed methods of an object as tools: schemas from signatures and docstrings, calls in the object's own thread."""

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from rollwright.environments.adapters.foreign import ForeignCode, brief
from rollwright.environments.schemas import ArgumentError, FunctionSchema, read_arguments, schema_of
from rollwright.record import ToolRequest, ToolResult

__all__ = ["MethodTools", "public_methods"]


def public_methods(kind: type, *, apart_from: Sequence[str]) -> tuple[str, ...]:
    """Names of the methods that a class offers, in the order of its definition, inherited ones first."""
    names = [
        name
        for base in reversed(kind.__mro__[:-1])
        for name, member in vars(base).items()
        if inspect.isfunction(member) and not name.startswith("_") and name not in apart_from
    ]
    return tuple(dict.fromkeys(names))


class MethodTools:
    """The tools of one object."""

    def __init__(self, methods: Mapping[str, Callable[..., object]]) -> None:
        """Read the schemas.

        Args:
            methods: by name, bound.

        Raises:
            EnvironmentSetupError: for one without types or docstring.
        """
        self._methods = methods
        self._schemas: Mapping[str, FunctionSchema] = {name: schema_of(method) for name, method in methods.items()}
        self.definitions = MappingProxyType({name: schema.text() for name, schema in self._schemas.items()})

    async def call(self, request: ToolRequest, code: ForeignCode) -> ToolResult:
        """Run a call; whatever the method raises is said to the policy."""
        schema = self._schemas.get(request.tool)
        if schema is None:
            known = ", ".join(self._schemas) or "none"
            return _result(request, "invalid_call", f"unknown tool {request.tool[:40]!r}; available: {known}")
        try:
            arguments = read_arguments(schema, request.arguments)
        except ArgumentError as error:
            return _result(request, "invalid_call", str(error))
        method = self._methods[request.tool]
        try:
            if inspect.iscoroutinefunction(method):
                given = await code.run(lambda: asyncio.run(method(**arguments)))
            else:
                given = await code.run(partial(method, **arguments))
        except Exception as error:  # noqa: BLE001 - someone else's tool may raise anything, and says it to the policy
            return _result(request, "tool_error", brief(error))
        return ToolResult(call_id=request.call_id, status="ok", text=str(given))


def _result(request: ToolRequest, status: str, problem: str) -> ToolResult:
    return ToolResult(call_id=request.call_id, status=status, text=f"error: {problem}")
