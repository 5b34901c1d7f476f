"""Several turns with tools that run in a sandbox of the episode's own.

    open ──► begin ──► a turn of the policy ──► calls ──► the sandbox, taken and furnished at the first of them
                              ▲                   │
                              └──── results ◄─────┘        a turn without a call ends the episode; artifacts, then end

The sandbox is taken when the first call needs it, so that an episode which answers straight away costs no process.
Calls of one episode run one after the other, in the order of asking. A state is the calls and their results; a snapshot
holds the calls, and the episode that is opened from it runs them again.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType

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
from rollwright.environments.code_blocks import CodeBlocks
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.sandbox_tools import SandboxTool, ToolAnswer
from rollwright.environments.schemas import read_arguments
from rollwright.environments.tools import clean_text, cut_text
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
from rollwright.sandboxes import Sandbox, SandboxError, Sandboxes
from rollwright.tasks import TaskError

__all__ = ["CollectFn", "Furnishing", "LayFn", "SandboxEnvironment"]

_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""
LayFn = Callable[[Sandbox, Task], Awaitable[None]]
"""Puts the task's files into a fresh sandbox. Raises SandboxError or TaskError for what is no fault of the policy."""
CollectFn = Callable[[Sandbox], Awaitable[Mapping[str, bytes]]]
"""Reads what verifiers need from the sandbox at the end."""


async def _nothing_laid(sandbox: Sandbox, task: Task) -> None:
    """An empty folder."""


async def _nothing_collected(sandbox: Sandbox) -> Mapping[str, bytes]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Furnishing:
    """What is laid into an episode's sandbox, and what is taken out of it."""

    revision: str = "empty"
    """Of both functions."""
    lay: LayFn = _nothing_laid
    collect: CollectFn = _nothing_collected


class SandboxEnvironment:
    """A kind of episode: messages of the task, tools in a sandbox, and an end where the policy calls none."""

    def __init__(  # noqa: PLR0913 - each is a part of its own, most have a default
        self,
        *,
        name: str,
        tools: Sequence[SandboxTool],
        sandboxes: Sandboxes,
        limits: ToolLimits | None = None,
        furnishing: Furnishing | None = None,
        blocks: CodeBlocks | None = None,
        system_prompt: str = "",
        demonstrate: DemonstrateFn | None = None,
    ) -> None:
        """Store the parts.

        Args:
            name: in the tables.
            tools: what the policy may call.
            sandboxes: the pool; closed by whoever made it.
            limits: of an episode; `call_timeout_s` is the wall clock of a call and should exceed the sandbox's own.
            furnishing: files in, artifacts out.
            blocks: code written in the text of a turn runs as well, by this grammar; then there are no tools to call.
            system_prompt: before the task's messages.
            demonstrate: for a warm start.
        """
        self._name = name
        self._tools = MappingProxyType({tool.name: tool for tool in tools})
        if len(self._tools) != len(tools) or (blocks is not None and len(tools) != 1):
            raise EnvironmentSetupError(
                f"environment {name} has tools {[tool.name for tool in tools]}: their names must differ, and with "
                "code blocks there is one, which runs the blocks"
            )
        self._schemas = MappingProxyType({} if blocks else {tool.name: tool.schema.text() for tool in tools})
        self._sandboxes = sandboxes
        self._limits = limits or ToolLimits()
        self._furnishing = furnishing or Furnishing()
        self._blocks = blocks
        self._system_prompt = system_prompt
        self._demonstrate = demonstrate
        self._revision = digest(
            [
                _BEHAVIOR,
                name,
                {tool.name: tool.revision for tool in tools},
                [self._limits.calls, self._limits.result_characters, self._limits.argument_characters],
                self._furnishing.revision,
                None if blocks is None else blocks.parts(),
                sandboxes.profile_id,
                system_prompt,
            ]
        )[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._name

    @property
    def revision(self) -> str:
        """A digest of tools, limits, furnishing, instructions, and of what the programs run in."""
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
    ) -> AbstractAsyncContextManager["SandboxEpisode"]:
        """Open a single-use episode; nothing of it is shared with another."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["SandboxEpisode"]:
        state = CallState(task_id=task.task_id, seed=seed) if snapshot is None else restored_state(snapshot, task, seed)
        async with AsyncExitStack() as stack:
            room = _Room(stack=stack, sandboxes=self._sandboxes, lay=self._furnishing.lay, task=task)
            yield SandboxEpisode(
                face=_Face(
                    tools=self._tools,
                    schemas=self._schemas,
                    limits=self._limits,
                    collect=self._furnishing.collect,
                    blocks=self._blocks,
                    opening=opening_messages(task, self._system_prompt),
                ),
                room=room,
                state=state,
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Face:
    """What all episodes of a task share."""

    tools: Mapping[str, SandboxTool]
    schemas: Mapping[str, str]
    limits: ToolLimits
    collect: CollectFn
    blocks: CodeBlocks | None
    opening: tuple[Message, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class _Room:
    """The sandbox of one episode, once it is needed."""

    stack: AsyncExitStack
    sandboxes: Sandboxes
    lay: LayFn
    task: Task
    sandbox: Sandbox | None = None

    async def entered(self) -> Sandbox:
        """Take and furnish it the first time."""
        if self.sandbox is None:
            taken = await self.stack.enter_async_context(self.sandboxes.take())
            await self.lay(taken, self.task)
            self.sandbox = taken
        return self.sandbox


class SandboxEpisode:
    """One episode; see `record.Episode`."""

    def __init__(self, *, face: _Face, room: _Room, state: CallState) -> None:
        self._face = face
        self._room = room
        self._state = state
        self._one_by_one = asyncio.Lock()

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        return self._face.schemas

    async def begin(self) -> StepResult:
        """The task's messages; an episode from a snapshot goes on with an open turn and no new message."""
        return self._open_turn(self._face.opening if self._state.turns == 0 else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call, after those that were asked before it.

        Raises:
            EnvironmentBrokenError: where the sandbox or the tool itself failed.
        """
        status, text = await self._called(request)
        return ToolResult(call_id=request.call_id, status=status, text=text)

    async def step(self, action: Action) -> StepResult:
        """Take a finished turn: calls, code blocks and malformed calls open the next one, anything else is the end."""
        if self._state.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._state.turns += 1
        if action.parse_error is not None:
            return self._open_turn((complaint(action.parse_error, self._face.limits),))
        if action.calls:
            return self._open_turn(())
        blocks = self._face.blocks
        code = None if blocks is None else blocks.find(action.text)
        if blocks is not None and code is not None:
            (name,) = self._face.tools
            parameter = self._face.tools[name].schema.required[0]
            block = ToolRequest(call_id="", tool=name, arguments=canonical_json({parameter: code}))
            _, text = await self._called(block)
            return self._open_turn((Message(role="user", text=blocks.result(text)),))
        self._state.has_ended = True
        return StepResult(observations=())

    async def artifacts(self) -> Mapping[str, bytes]:
        """What is taken out of the sandbox; nothing where no call ever needed one."""
        if not any(_was_run(call) for call in self._state.calls):
            return {}
        async with self._one_by_one:
            try:
                return await self._face.collect(await self._entered())
            except SandboxError as error:
                raise EnvironmentBrokenError(f"the sandbox failed: {error}") from error

    async def snapshot(self) -> bytes:
        """The state as canonical JSON."""
        return self._state.text().encode()

    def _open_turn(self, messages: tuple[Message, ...]) -> StepResult:
        state_hash = digest(self._state.text())
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=state_hash),))

    async def _called(self, request: ToolRequest) -> tuple[str, str]:
        """Status and shown text; the call takes its place in the state when it is asked."""
        place = len(self._state.calls)
        tool, arguments = request.tool, request.arguments
        self._state.calls.append(CallRecord(tool=tool, arguments=arguments, status="open", result_sha256=""))
        async with self._one_by_one:
            answer = await self._answer(request, place)
        shown = self._shown(answer.text)
        self._state.calls[place] = CallRecord(
            tool=tool, arguments=arguments, status=answer.status, result_sha256=digest(shown)
        )
        return answer.status, shown

    async def _answer(self, request: ToolRequest, place: int) -> ToolAnswer | Refusal:
        tools = self._face.tools
        read = read_call(
            request, place, limits=self._face.limits, schemas={name: tool.schema for name, tool in tools.items()}
        )
        if isinstance(read, Refusal):
            return read
        try:
            return await self._run(await self._entered(), tools[request.tool], request.arguments)
        except SandboxError as error:
            raise EnvironmentBrokenError(f"the sandbox failed: {error}") from error

    async def _entered(self) -> Sandbox:
        """The sandbox, with the calls of a snapshot run again in it."""
        first = self._room.sandbox is None
        try:
            sandbox = await self._room.entered()
        except TaskError as error:
            raise EnvironmentBrokenError(f"the task's files cannot be laid: {error}") from error
        if first:
            for call in [call for call in self._state.calls if _was_run(call)]:
                said = await self._run(sandbox, self._face.tools[call.tool], call.arguments)
                if (said.status, digest(self._shown(said.text))) != (call.status, call.result_sha256):
                    raise EnvironmentBrokenError(
                        f"a call of {call.tool} gave another result when it was run again; what it did depends on more "
                        "than the sandbox, so this episode cannot go on from a snapshot"
                    )
        return sandbox

    async def _run(self, sandbox: Sandbox, tool: SandboxTool, arguments: str) -> ToolAnswer:
        limit_s = self._face.limits.call_timeout_s
        deadline = asyncio.timeout(limit_s)
        try:
            async with deadline:
                return await tool.function(sandbox, **read_arguments(tool.schema, arguments))
        except SandboxError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where a tool's own failure becomes a record
            if deadline.expired():
                return ToolAnswer(status="timeout", text=f"error: no answer within {limit_s:g} seconds")
            raise EnvironmentBrokenError(f"tool {tool.name} failed: {type(error).__name__}: {error}") from error

    def _shown(self, text: str) -> str:
        return cut_text(clean_text(text), self._face.limits.result_characters)


def _was_run(call: CallRecord) -> bool:
    return call.status in ("ok", "tool_error", "timeout")
