"""Several turns with tools: the policy calls them until it ends a turn without a call."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import cast

from rollwright.environments.call_rules import (
    ACTOR,
    CallRecord,
    CallState,
    Refusal,
    ToolLimits,
    complaint,
    opening_messages,
    read_call,
    restored_state,
)
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.schemas import Arguments
from rollwright.environments.tool_threads import ToolThreads
from rollwright.environments.tools import Tool, clean_text, cut_text
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    Observation,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)

__all__ = ["ACTOR", "ArtifactFn", "CallRecord", "ToolEnvironment", "ToolLimits", "call_log", "no_artifacts"]

_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""


ArtifactFn = Callable[[Sequence[CallRecord]], Mapping[str, bytes]]


def no_artifacts(calls: Sequence[CallRecord]) -> Mapping[str, bytes]:
    """Leave nothing: the passages of the episode say what verifiers need."""
    return {}


def call_log(calls: Sequence[CallRecord]) -> Mapping[str, bytes]:
    """Leave `tool_calls.json`, a list of {tool, arguments, status}, for verifiers that judge the calls themselves."""
    rows = [{"tool": c.tool, "arguments": c.arguments, "status": c.status} for c in calls]
    return {"tool_calls.json": canonical_json(rows).encode()}


class ToolEnvironment:
    """A kind of episode: messages of the task, tools, and an end where the policy calls none.

    The state of an episode is its calls and their results, so equal calls give equal hashes. Everything that the
    policy gets wrong comes back as text that it can read; only a tool's own failure breaks the episode.
    """

    def __init__(
        self,
        *,
        tools: Sequence[Tool],
        name: str = "tool",
        limits: ToolLimits | None = None,
        system_prompt: str = "",
        demonstrate: DemonstrateFn | None = None,
        artifacts: ArtifactFn = no_artifacts,
    ) -> None:
        self._name = name
        self._tools = MappingProxyType({tool.name: tool for tool in tools})
        self._limits = limits or ToolLimits()
        self._system_prompt = system_prompt
        self._demonstrate = demonstrate
        self._artifacts = artifacts
        self._threads = ToolThreads()
        self._schemas = MappingProxyType({tool.name: tool.schema.text() for tool in tools})
        if len(self._tools) != len(tools):
            raise EnvironmentSetupError(f"two tools have one name: {sorted(tool.name for tool in tools)}")
        self._revision = digest(
            [
                _BEHAVIOR,
                name,
                {tool.name: tool.revision for tool in tools},
                [self._limits.calls, self._limits.result_characters, self._limits.argument_characters],
                system_prompt,
            ]
        )[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._name

    @property
    def revision(self) -> str:
        """A digest of tools, limits and instructions."""
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
    def tool_revisions(self) -> Mapping[str, str]:
        """Name to revision, for the table of tool calls."""
        return MappingProxyType({tool.name: tool.revision for tool in self._tools.values()})

    @property
    def limits(self) -> Mapping[str, float]:
        """What one episode may ask of its tools."""
        return self._limits.declared()

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where this environment was given nothing to demonstrate with.
        """
        return demonstrated(self._name, self._demonstrate, task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["ToolEpisode"]:
        """Open a single-use episode; nothing of it is shared with another."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["ToolEpisode"]:
        state = CallState(task_id=task.task_id, seed=seed) if snapshot is None else restored_state(snapshot, task, seed)
        yield ToolEpisode(
            tools=self._tools,
            schemas=self._schemas,
            limits=self._limits,
            opening=opening_messages(task, self._system_prompt),
            artifacts=self._artifacts,
            threads=self._threads,
            state=state,
        )


class ToolEpisode:
    """One episode; see `record.Episode`."""

    def __init__(  # noqa: PLR0913 - made by its environment alone, from parts that it shares with every episode
        self,
        *,
        tools: Mapping[str, Tool],
        schemas: Mapping[str, str],
        limits: ToolLimits,
        opening: tuple[Message, ...],
        artifacts: ArtifactFn,
        threads: ToolThreads,
        state: CallState,
    ) -> None:
        self._tools = tools
        self._schemas = schemas
        self._limits = limits
        self._opening = opening
        self._artifacts = artifacts
        self._threads = threads
        self._state = state
        self._parameters = {name: tool.schema for name, tool in tools.items()}

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        return self._schemas

    async def begin(self) -> StepResult:
        """The task's messages; an episode from a snapshot goes on with an open turn and no new message."""
        return self._open_turn(self._opening if self._state.turns == 0 else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call. Several may run at once; each takes its place in the state when it is asked.

        Raises:
            EnvironmentBrokenError: where the tool itself failed.
        """
        place = len(self._state.calls)
        self._state.calls.append(
            CallRecord(tool=request.tool, arguments=request.arguments, status="open", result_sha256="")
        )
        status, text = await self._answer(request, place)
        shown = cut_text(clean_text(text), self._limits.result_characters)
        self._state.calls[place] = CallRecord(
            tool=request.tool, arguments=request.arguments, status=status, result_sha256=digest(shown)
        )
        return ToolResult(call_id=request.call_id, status=status, text=shown)

    async def step(self, action: Action) -> StepResult:
        """Take a finished turn: calls and malformed calls open the next one, anything else ends the episode."""
        if self._state.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._state.turns += 1
        if action.parse_error is not None:
            return self._open_turn((complaint(action.parse_error, self._limits),))
        if action.calls:
            return self._open_turn(())
        self._state.has_ended = True
        return StepResult(observations=())

    async def artifacts(self) -> Mapping[str, bytes]:
        """What the environment was told to leave."""
        return self._artifacts(tuple(self._state.calls))

    async def snapshot(self) -> bytes:
        """The state as canonical JSON."""
        return self._state.text().encode()

    def _open_turn(self, messages: tuple[Message, ...]) -> StepResult:
        state_hash = digest(self._state.text())
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=state_hash),))

    async def _answer(self, request: ToolRequest, place: int) -> tuple[str, str]:
        """Status and text."""
        arguments = read_call(request, place, limits=self._limits, schemas=self._parameters)
        if isinstance(arguments, Refusal):
            return arguments.status, arguments.text
        return await self._run(self._tools[request.tool], arguments)

    async def _run(self, tool: Tool, arguments: Arguments) -> tuple[str, str]:
        try:
            return "ok", str(await self._given(tool, arguments))
        except ToolError as error:
            return "tool_error", f"error: {error}"
        except TimeoutError:
            return "timeout", f"error: no answer within {self._limits.call_timeout_s:g} seconds"
        except Exception as error:  # noqa: BLE001 - the one place where a tool's own failure becomes a record
            raise EnvironmentBrokenError(f"tool {tool.name} failed: {type(error).__name__}: {error}") from error

    async def _given(self, tool: Tool, arguments: Arguments) -> object:
        """Run a tool where it may take its time: in a thread, unless it is a coroutine or declared quick."""
        if tool.is_quick:
            return tool.function(**arguments)
        async with asyncio.timeout(self._limits.call_timeout_s):
            if inspect.iscoroutinefunction(tool.function):
                given: object = tool.function(**arguments)
            else:
                given = await self._threads.run(partial(tool.function, **arguments), tool.name)
            return cast("object", await given) if inspect.isawaitable(given) else given
