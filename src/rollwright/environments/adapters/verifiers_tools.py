"""Tools of the package `verifiers`: its toolsets, called in this process, on the state of the episode's own run."""

import asyncio
import importlib
import inspect
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import ToolRequest, ToolResult, canonical_json
from rollwright.tasks import VerifiersConfig, VerifiersPackage, VerifiersTask, VerifiersTrace

__all__ = ["VerifiersTools"]

Foreign = VerifiersConfig
"""An object of the packages `verifiers` or `mcp`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Named:
    """One tool: the server that knows its schema, its name there, and whether it awaits."""

    server: Foreign
    name: str
    is_coroutine: bool


class VerifiersTools:
    """The tools of one episode."""

    def __init__(self, tools: Mapping[str, _Named], schemas: Mapping[str, str], threads: ToolThreads) -> None:
        self.schemas = MappingProxyType(dict(schemas))
        self._tools = tools
        self._threads = threads
        self._state = importlib.import_module("verifiers.v1.mcp.server")._call_state  # noqa: SLF001 - its only door

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, package: VerifiersPackage, task: VerifiersTask, threads: ToolThreads
    ) -> AsyncGenerator["VerifiersTools"]:
        """Make the toolsets of a task and of its taskset, and list what they offer."""
        own: list[Foreign] = package.task_class.toolsets(task.config)
        shared: list[Foreign] = package.env.taskset.toolsets(package.env.taskset.config)
        tools: dict[str, _Named] = {}
        schemas: dict[str, str] = {}
        for toolset in (*shared, *own):
            _refuse(package, toolset)
            await toolset.setup()
            if toolset not in shared:
                await toolset.setup_task(task.data)
            for name, tool, schema in await _listed(toolset):
                if name in tools:
                    raise EnvironmentSetupError(f"two tools of verifiers have the name {name}")
                tools[name], schemas[name] = tool, schema
        yield cls(tools, schemas, threads)

    async def call(self, request: ToolRequest, trace: VerifiersTrace) -> ToolResult:
        """Run a call on the state of a run. What a tool raises is said to the policy, as the package does."""
        tool = self._tools.get(request.tool)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            text = f"error: unknown tool {request.tool[:40]!r}; available: {known}"
            return ToolResult(call_id=request.call_id, status="invalid_call", text=text)
        try:
            arguments = cast("object", json.loads(request.arguments))
        except (ValueError, RecursionError):
            arguments = None
        if not isinstance(arguments, dict):
            text = "error: the arguments must be a JSON object"
            return ToolResult(call_id=request.call_id, status="invalid_call", text=text)
        token = self._state.set(trace.state)
        try:
            given = await self._given(tool, cast("dict[str, object]", arguments))
        except Exception as error:  # noqa: BLE001 - the package shows the policy whatever a tool raises
            text = f"error: {' '.join(str(error).split())[:400]}"
            return ToolResult(call_id=request.call_id, status="tool_error", text=text)
        finally:
            self._state.reset(token)
        return ToolResult(call_id=request.call_id, status="ok", text=given)

    async def _given(self, tool: _Named, arguments: dict[str, object]) -> str:
        if tool.is_coroutine:
            return _text(await tool.server.call_tool(tool.name, arguments))
        run = self._threads.run(lambda: asyncio.run(_answered(tool, arguments)), tool.name)
        return _text(await run)


async def _answered(tool: _Named, arguments: dict[str, object]) -> object:
    return await tool.server.call_tool(tool.name, arguments)


def _text(result: Foreign) -> str:
    blocks = cast("Sequence[Foreign]", result.content)
    if any(block.type != "text" for block in blocks):
        raise EnvironmentSetupError("the result is no text; only text can be carried")
    said = "\n".join(str(block.text) for block in blocks)
    if result.is_error:
        raise ValueError(said)
    return said


async def _listed(toolset: Foreign) -> list[tuple[str, _Named, str]]:
    """Name, tool and definition of each, with the server's name in front as the package has it."""
    server = importlib.import_module("mcp.server.mcpserver").MCPServer(toolset.server_name or "tools")
    functions: dict[str, Callable[..., object]] = {}
    discover = importlib.import_module("verifiers.v1.utils.decorators").discover_decorated
    for function in cast("Sequence[Foreign]", discover(toolset, "tool")):
        name = function.tool_name or function.__name__
        functions[name] = function
        server.add_tool(function, name=name, description=(function.__doc__ or "").strip() or None)
    found: list[tuple[str, _Named, str]] = []
    for tool in await server.list_tools():
        full = f"{toolset.server_name}_{tool.name}" if toolset.server_name else str(tool.name)
        definition = {"name": full, "description": tool.description or "", "parameters": tool.input_schema}
        schema = canonical_json({"type": "function", "function": definition})
        is_coroutine = inspect.iscoroutinefunction(functions[tool.name])
        found.append((full, _Named(server=server, name=tool.name, is_coroutine=is_coroutine), schema))
    return found


def _refuse(package: VerifiersPackage, toolset: Foreign) -> None:
    name = type(toolset).__name__
    if toolset.register.__func__ is not package.vf.Toolset.register:
        raise EnvironmentSetupError(f"toolset {name} registers its tools by itself; only @tool methods can be carried")
    if toolset.config.url is not None or toolset.config.runtime.type != "subprocess":
        raise EnvironmentSetupError(f"toolset {name} runs on another machine; only one that runs here can be carried")
