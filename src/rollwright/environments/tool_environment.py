"""Several turns with tools: the policy calls them until it ends a turn without a call."""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import cast

from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.errors import EnvironmentSetupError, ToolError
from rollwright.environments.schemas import ArgumentError, Arguments, read_arguments
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
from rollwright.tasks import TaskError, payload_of, read_json

__all__ = ["ACTOR", "ArtifactFn", "CallRecord", "ToolEnvironment", "ToolLimits", "call_log", "no_artifacts"]

ACTOR = "agent"
_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What one episode may ask of its tools."""

    calls: int = 8
    """Requests in all, malformed arguments included; later ones are answered with status `limit`."""
    result_characters: int = 400
    """Longer results are cut, with a mark."""
    argument_characters: int = 2000
    call_timeout_s: float = 10.0
    """Of one call; a tool that is declared quick bounds itself."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if self.calls < 0 or self.result_characters < 16 or self.argument_characters < 2 or self.call_timeout_s <= 0:
            raise EnvironmentSetupError(
                f"{self}: calls must be at least 0, result_characters at least 16, argument_characters at least 2, "
                "call_timeout_s above 0"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What became of one request."""

    tool: str
    arguments: str
    status: str
    result_sha256: str


ArtifactFn = Callable[[Sequence[CallRecord]], Mapping[str, bytes]]


def no_artifacts(calls: Sequence[CallRecord]) -> Mapping[str, bytes]:
    """Leave nothing: the passages of the episode say what verifiers need."""
    return {}


def call_log(calls: Sequence[CallRecord]) -> Mapping[str, bytes]:
    """Leave `tool_calls.json`, a list of {tool, arguments, status}, for verifiers that judge the calls themselves."""
    rows = [{"tool": c.tool, "arguments": c.arguments, "status": c.status} for c in calls]
    return {"tool_calls.json": canonical_json(rows).encode()}


@dataclass(slots=True, eq=False)
class _State:
    """All that an episode remembers."""

    task_id: str
    seed: int
    turns: int = 0
    has_ended: bool = False
    calls: list[CallRecord] = field(default_factory=list[CallRecord])

    def text(self) -> str:
        """Canonical JSON of the state."""
        calls = [[c.tool, c.arguments, c.status, c.result_sha256] for c in self.calls]
        return canonical_json(
            {
                "task_id": self.task_id,
                "seed": self.seed,
                "turns": self.turns,
                "has_ended": self.has_ended,
                "calls": calls,
            }
        )


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
        return MappingProxyType(
            {
                "calls": self._limits.calls,
                "result_characters": self._limits.result_characters,
                "argument_characters": self._limits.argument_characters,
                "call_timeout_s": self._limits.call_timeout_s,
            }
        )

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where this environment was given nothing to demonstrate with.
        """
        if self._demonstrate is None:
            raise EnvironmentSetupError(
                f"environment {self._name} has no demonstrations; leave the supervised stage out, or give it some"
            )
        return self._demonstrate(task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["ToolEpisode"]:
        """Open a single-use episode; nothing of it is shared with another."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["ToolEpisode"]:
        state = _State(task_id=task.task_id, seed=seed) if snapshot is None else _restored(snapshot, task, seed)
        yield ToolEpisode(
            tools=self._tools,
            schemas=self._schemas,
            limits=self._limits,
            opening=_opening(task, self._system_prompt),
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
        state: _State,
    ) -> None:
        self._tools = tools
        self._schemas = schemas
        self._limits = limits
        self._opening = opening
        self._artifacts = artifacts
        self._threads = threads
        self._state = state

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
            complaint = cut_text(clean_text(f"error: {action.parse_error}"), self._limits.result_characters)
            return self._open_turn((Message(role="user", text=complaint),))
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
        if place >= self._limits.calls:
            return "limit", f"error: no calls left, {self._limits.calls} are allowed"
        tool = self._tools.get(request.tool)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            return "invalid_call", f"error: unknown tool {request.tool[:40]!r}; available: {known}"
        if len(request.arguments) > self._limits.argument_characters:
            allowed = self._limits.argument_characters
            return "invalid_call", f"error: {len(request.arguments)} characters of arguments, {allowed} are allowed"
        try:
            arguments = read_arguments(tool.schema, request.arguments)
        except ArgumentError as error:
            return "invalid_call", f"error: {error}"
        return await self._run(tool, arguments)

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


def _opening(task: Task, system_prompt: str) -> tuple[Message, ...]:
    try:
        asked = payload_of(task).messages
    except TaskError as error:
        raise EnvironmentBrokenError(str(error)) from error
    if not system_prompt:
        return asked
    if asked[0].role == "system":
        return (Message(role="system", text=f"{system_prompt}\n\n{asked[0].text}"), *asked[1:])
    return (Message(role="system", text=system_prompt), *asked)


def _restored(snapshot: bytes, task: Task, seed: int) -> _State:
    """Read a state again.

    Raises:
        EnvironmentBrokenError: where it is no state of this task and seed.
    """
    try:
        loaded = cast("Mapping[str, object]", read_json(snapshot.decode()))
        if loaded["task_id"] != task.task_id or loaded["seed"] != seed:
            raise ValueError(f"it is of task {loaded['task_id']} and seed {loaded['seed']}")
        calls = [
            CallRecord(tool=tool, arguments=arguments, status=status, result_sha256=sha256)
            for tool, arguments, status, sha256 in cast("Sequence[tuple[str, str, str, str]]", loaded["calls"])
        ]
        turns, has_ended = cast("int", loaded["turns"]), cast("bool", loaded["has_ended"])
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentBrokenError(f"the snapshot does not fit task {task.task_id}: {error}") from error
    return _State(task_id=task.task_id, seed=seed, turns=turns, has_ended=has_ended, calls=calls)
