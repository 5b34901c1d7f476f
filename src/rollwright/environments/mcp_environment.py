"""Episodes with the tools of an MCP server: the policy calls them until it ends a turn without a call."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from rollwright.environments.call_rules import ACTOR, ToolLimits, complaint
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.mcp_arguments import ArgumentSchema
from rollwright.environments.mcp_tools import McpConnection, McpConnections, McpServer, McpTool
from rollwright.environments.tools import clean_text, cut_text
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    NotSnapshottableError,
    Observation,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import Json, TaskError, payload_of

__all__ = ["McpEnvironment", "McpEpisode", "McpSettings"]

_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """How the episodes use the server."""

    connection: Literal["episode", "shared"] = "episode"
    """A connection for each episode (a server of its own, where it is started by a command), or one for all: for tools
    that keep no state."""
    tools: tuple[str, ...] = ()
    """Names of those that are offered; empty: all."""
    limits: ToolLimits = ToolLimits()
    system_prompt: str = ""
    name: str = "mcp"


class McpEnvironment:
    """A kind of episode over a server. The tools are those that the server offers when this is made."""

    def __init__(
        self, server: McpServer, settings: McpSettings | None = None, *, demonstrate: DemonstrateFn | None = None
    ) -> None:
        """Ask the server for its tools.

        Raises:
            EnvironmentSetupError: where it does not answer, or lacks a tool that is wanted.
        """
        self._settings = settings or McpSettings()
        self._demonstrate = demonstrate
        self._connections = McpConnections(server)
        try:
            wanted = self._wanted(self._connections.discover())
            self._arguments = MappingProxyType({tool.name: ArgumentSchema(tool) for tool in wanted})
        except EnvironmentSetupError:
            self._connections.close()
            raise
        self._schemas = MappingProxyType({name: schema.text for name, schema in self._arguments.items()})
        limits, prompt = self._settings.limits, self._settings.system_prompt
        bounds = [limits.calls, limits.result_characters, limits.argument_characters]
        self._revision = digest([_BEHAVIOR, self.name, dict(self._schemas), bounds, prompt])[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._settings.name

    @property
    def revision(self) -> str:
        """A digest of schemas, limits and instructions; what the server does inside it cannot know."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to schema, the same in every episode."""
        return self._schemas

    @property
    def limits(self) -> Mapping[str, float]:
        """What one episode may ask of its tools."""
        return self._settings.limits.declared()

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where it was given nothing to demonstrate with.
        """
        if self._demonstrate is None:
            raise EnvironmentSetupError(
                f"environment {self.name} has no demonstrations; leave the supervised stage out, or name some by "
                "environment.demonstrate"
            )
        return self._demonstrate(task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["McpEpisode"]:
        """Open a single-use episode; leaving it ends its connection, and the server with it where it was started."""
        return self._opened(task, snapshot)

    def close(self) -> None:
        """End the connections. Called once, after all episodes."""
        self._connections.close()

    @asynccontextmanager
    async def _opened(self, task: Task, snapshot: bytes | None) -> AsyncGenerator["McpEpisode"]:
        if snapshot is not None:
            raise NotSnapshottableError("the state of an MCP server cannot be restored")
        try:
            asked = payload_of(task).messages
        except TaskError as error:
            raise EnvironmentBrokenError(str(error)) from error
        if self._settings.system_prompt:
            asked = (Message(role="system", text=self._settings.system_prompt), *asked)
        async with self._connections.opened(self._settings.connection) as connection:
            offered = {tool.name: tool.text() for tool in connection.tools}
            changed = [name for name, text in self._schemas.items() if offered.get(name) != text]
            if changed:
                raise EnvironmentBrokenError(f"the MCP server has changed its tools {', '.join(changed)}")
            yield McpEpisode(
                task=task,
                opening=asked,
                arguments=self._arguments,
                limits=self._settings.limits,
                connections=self._connections,
                connection=connection,
            )

    def _wanted(self, offered: Sequence[McpTool]) -> Sequence[McpTool]:
        names = {tool.name for tool in offered}
        if missing := [name for name in self._settings.tools if name not in names]:
            raise EnvironmentSetupError(
                f"the MCP server has no tool {', '.join(missing)}; it offers {', '.join(sorted(names)) or 'none'}"
            )
        if len(names) < len(offered):
            raise EnvironmentSetupError(f"the MCP server offers two tools of one name: {_repeated(offered)}")
        return [tool for tool in offered if not self._settings.tools or tool.name in self._settings.tools]


class McpEpisode:
    """One episode; see `record.Episode`. Its state hash is of its calls and their results."""

    def __init__(
        self,
        *,
        task: Task,
        opening: tuple[Message, ...],
        arguments: Mapping[str, ArgumentSchema],
        limits: ToolLimits,
        connections: McpConnections,
        connection: McpConnection,
    ) -> None:
        self._task_id = task.task_id
        self._opening = opening
        self._arguments = arguments
        self._limits = limits
        self._connections = connections
        self._connection = connection
        self._calls: list[list[str]] = []
        self._has_ended = False

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        return {name: schema.text for name, schema in self._arguments.items()}

    async def begin(self) -> StepResult:
        """The task's messages."""
        return self._open_turn(self._opening)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call. Several may run at once; each takes its place in the state when it is asked.

        Raises:
            EnvironmentBrokenError: where the server failed.
        """
        place = len(self._calls)
        self._calls.append([request.tool, request.arguments, "open", ""])
        status, text = await self._answer(request, place)
        shown = cut_text(clean_text(text), self._limits.result_characters)
        self._calls[place] = [request.tool, request.arguments, status, digest(shown)]
        return ToolResult(call_id=request.call_id, status=status, text=shown)

    async def step(self, action: Action) -> StepResult:
        """Take a finished turn: calls and malformed calls open the next one, anything else ends the episode."""
        if self._has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        if action.parse_error is not None:
            return self._open_turn((complaint(action.parse_error, self._limits),))
        if action.calls:
            return self._open_turn(())
        self._has_ended = True
        return StepResult(observations=())

    async def artifacts(self) -> Mapping[str, bytes]:
        """`tool_calls.json`, a list of {tool, arguments, status}."""
        rows = [{"tool": tool, "arguments": arguments, "status": status} for tool, arguments, status, _ in self._calls]
        return {"tool_calls.json": canonical_json(rows).encode()}

    async def snapshot(self) -> bytes:
        """The server's state is its own.

        Raises:
            NotSnapshottableError: always.
        """
        raise NotSnapshottableError("the state of an MCP server cannot be kept; the episode starts again from its task")

    def _open_turn(self, messages: tuple[Message, ...]) -> StepResult:
        state_hash = digest([self._task_id, self._calls])
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=state_hash),))

    async def _answer(self, request: ToolRequest, place: int) -> tuple[str, str]:
        """Status and text."""
        limits = self._limits
        if place >= limits.calls:
            return "limit", f"error: no calls left, {limits.calls} are allowed"
        try:
            arguments = self._read(request)
        except ValueError as error:
            return "invalid_call", f"error: {error}"
        try:
            asked = self._connection.call(request.tool, arguments, timeout_s=limits.call_timeout_s)
            return "ok", await self._connections.run(asked)
        except ToolError as error:
            return "tool_error", f"error: {error}"
        except TimeoutError:
            return "timeout", f"error: no answer within {limits.call_timeout_s:g} seconds"

    def _read(self, request: ToolRequest) -> Mapping[str, Json]:
        schema = self._arguments.get(request.tool)
        if schema is None:
            known = ", ".join(self._arguments) or "none"
            raise ValueError(f"unknown tool {request.tool[:40]!r}; available: {known}")
        if len(request.arguments) > self._limits.argument_characters:
            allowed = self._limits.argument_characters
            raise ValueError(f"{len(request.arguments)} characters of arguments, {allowed} are allowed")
        return schema.read(request.arguments)


def _repeated(offered: Sequence[McpTool]) -> str:
    names = [tool.name for tool in offered]
    return ", ".join(sorted({name for name in names if names.count(name) > 1}))
