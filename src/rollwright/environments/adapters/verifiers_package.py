"""Environments of the package `verifiers` (0.4): their `run` is played unchanged, with our policy in the agent's seat.

The package's `Env.run(task, agents)` drives its agent; our driver drives the policy. So `run` goes on in a task of its
own, and each turn that it asks of its agent is handed over:

    Env.run ──interaction.turn()──► _Stage.asked ──► episode: an observation ──► the policy's turns and tool calls
            ◄──────Segment────────── _Stage.told ◄── the turn that calls no tool

Scoring is a verifier's work: the conversation, the state and what `run` itself recorded are left for it.
"""

import asyncio
import importlib
import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

from rollwright.environments.adapters.foreign import brief
from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.adapters.verifiers_tools import VerifiersTools
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import Action, EnvironmentBrokenError, Message, Task, ToolRequest, ToolResult, canonical_json
from rollwright.tasks import (
    Json,
    VerifiersMessage,
    VerifiersPackage,
    VerifiersTask,
    VerifiersTrace,
    payload_of,
    text_messages,
)

__all__ = ["CONVERSATION", "VerifiersGames"]

CONVERSATION = "conversation.json"
_STOPPED = "max_total_tokens"
"""What the package calls an end by a limit of tokens; of the limits of our driver it knows no other name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Over:
    """`run` has ended."""

    error: str | None = None


class _NoRuntime:
    """Stands where the package hands over a machine; whatever is asked of it is refused by name."""

    def __getattr__(self, name: str) -> object:
        raise EnvironmentBrokenError(f"it uses runtime.{name}; the adapter gives no runtime, so it cannot be carried")


@dataclass(slots=True, eq=False)
class _Stage:
    """Where the two sides meet."""

    asked: "asyncio.Queue[tuple[Message, ...] | _Over]" = field(default_factory=lambda: asyncio.Queue(1))
    told: "asyncio.Queue[None]" = field(default_factory=lambda: asyncio.Queue(1))
    """A word that the turn was taken, or that none will be."""


class VerifiersGames:
    """Episodes of one loaded environment; `open` is a `StartFn`."""

    def __init__(self, package: VerifiersPackage) -> None:
        self._package = package
        self._threads = ToolThreads()

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Build the row's task and its tools."""
        return self._opened(task)

    @asynccontextmanager
    async def _opened(self, task: Task) -> AsyncGenerator[Game]:
        row = self._package.task(payload_of(task).info["data"])
        failure: Exception | None = None
        async with VerifiersTools.opened(self._package, row, self._threads) as tools, asyncio.TaskGroup() as group:
            game = _VerifiersGame(package=self._package, task=row, tools=tools)
            running = group.create_task(game.conduct(), name=f"verifiers {task.task_id}")
            try:
                yield game
            except Exception as error:  # noqa: BLE001 - raised again below: out of the group it would come bundled
                failure = error
            finally:
                running.cancel()
        if failure is not None:
            raise failure


class _VerifiersGame:
    def __init__(self, *, package: VerifiersPackage, task: VerifiersTask, tools: VerifiersTools) -> None:
        self._package = package
        self._task = task
        self._tools = tools
        self._stage = _Stage()
        self._seat = _Seat(package, self._stage, tools)
        self._calls: list[tuple[ToolRequest, ToolResult]] = []
        self._is_over = False
        self._may_start = asyncio.Event()

    @property
    def tools(self) -> Mapping[str, str]:
        return self._tools.schemas

    async def conduct(self) -> None:
        """Run the environment's own `run`, once the episode begins."""
        await self._may_start.wait()
        try:
            agents = self._package.vf.Agents(self._package.env.config, self._seated)
            await self._package.env.setup(agents)
            await self._package.env.run(self._task, agents)
        except Exception as error:  # noqa: BLE001 - handed to the episode, which breaks by it
            await self._stage.asked.put(_Over(error=brief(error)))
        else:
            await self._stage.asked.put(_Over())

    def _seated(self, name: str, config: object) -> "_Seat":
        return self._seat

    async def begin(self) -> Move:
        self._may_start.set()
        return await self._next()

    async def call(self, request: ToolRequest) -> ToolResult:
        result = await self._tools.call(request, self._seat.trace)
        self._calls.append((request, result))
        return result

    async def act(self, action: Action) -> Move:
        calls, self._calls = self._calls, []
        goes_on = await self._seat.take(action.text, calls)
        if goes_on:
            return Move()
        await self._stage.told.put(None)
        return await self._next()

    async def leave(self) -> Departure:
        if not self._is_over:
            self._seat.trace.stop(_STOPPED)
            await self._stage.told.put(None)
            await self._next()
        return Departure(artifacts={CONVERSATION: canonical_json(self._seat.record()).encode()})

    async def _next(self) -> Move:
        asked = await self._stage.asked.get()
        if isinstance(asked, tuple):
            return Move(messages=asked)
        if asked.error is not None:
            raise EnvironmentBrokenError(f"its run failed: {asked.error}")
        self._is_over = True
        return Move(is_over=True)


class _Seat:
    """Stands where the package has an `Agent`: one run in an episode, played by our policy."""

    def __init__(self, package: VerifiersPackage, stage: _Stage, tools: VerifiersTools) -> None:
        self.trainable = True
        self.config = package.seat_config
        self._package = package
        self._stage = stage
        self._tools = tools
        self._talk: _Talk | None = None

    @property
    def trace(self) -> VerifiersTrace:
        """Of the run."""
        return self._begun().trace

    async def run(self, task: VerifiersTask, **options: object) -> VerifiersTrace:
        """Take the task's prompt to the turn that calls no tool."""
        async with self.interaction(task, **options) as talk:
            await talk.turn()
        return talk.trace

    @asynccontextmanager
    async def interaction(self, task: VerifiersTask, **options: object) -> AsyncGenerator["_Talk"]:
        """Open the run, and finish it."""
        if given := [name for name, value in options.items() if value]:
            raise EnvironmentBrokenError(f"it gives its agent {', '.join(given)}; the adapter cannot carry it")
        if self._talk is not None:
            raise EnvironmentBrokenError("it runs its agent twice in an episode; the adapter carries one run")
        if not isinstance(task, self._package.task_class):
            raise EnvironmentBrokenError(f"it gives its agent a {type(task).__name__}, no task of its taskset")
        self._talk = talk = _Talk(self._package, task, self._stage)
        await _called(task.setup, trace=talk.trace, runtime=_NoRuntime())
        try:
            yield talk
        finally:
            talk.close()
        await _called(task.finalize, trace=talk.trace, runtime=_NoRuntime())

    async def take(self, text: str, calls: Sequence[tuple[ToolRequest, ToolResult]]) -> bool:
        """Record a turn of the policy; whether the policy has another before `run` hears of it."""
        return await self._begun().take(text, calls)

    def record(self) -> Json:
        """What a verifier needs to rebuild the run."""
        return self._begun().record()

    def _begun(self) -> "_Talk":
        if self._talk is None:
            raise EnvironmentBrokenError("it never ran its agent")
        return self._talk


class _Talk:
    """Stands where the package has an `Interaction`."""

    def __init__(self, package: VerifiersPackage, task: VerifiersTask, stage: _Stage) -> None:
        self.trace = package.trace(task)
        self._package = package
        self._task = task
        self._stage = stage
        self._is_open = True
        self._has_started = False
        session = importlib.import_module("verifiers.v1.session")
        self._stops = [(session.hook_boundary(stop, allow_trace=True), stop) for stop in task.hooks("stop")]
        self._call_hook = cast("Callable[..., object]", session.call_hook)

    async def turn(self, message: object = None) -> object:
        """One turn of the user, answered by the policy; the answer is a `Segment` of the package."""
        vf = self._package.vf
        prompted = not self._has_started and self._task.data.prompt is not None
        if not self._is_open or (message is None) != prompted:
            raise ValueError("a prompted task speaks first, by a bare turn(); every other turn brings a message")
        first = self._opening() if not self._has_started else []
        self._has_started = True
        said = [*first, *self._typed(message)]
        before = len(self.trace.nodes)
        if self.trace.stop_condition is None and not await self._refuses():
            for one in said:
                self._add(one)
            await self._stage.asked.put(text_messages(vf, said))
            await self._stage.told.get()
        new = self.trace.nodes[before:]
        answered = [n.message for n in new if n.sampled or isinstance(n.message, vf.ToolMessage)]
        return vf.Segment(messages=answered, terminated=not any(n.sampled for n in new))

    async def take(self, text: str, calls: Sequence[tuple[ToolRequest, ToolResult]]) -> bool:
        """Record a turn and its results; whether the policy goes on by itself."""
        vf = self._package.vf
        asked = [vf.ToolCall(id=q.call_id, name=q.tool, arguments=q.arguments) for q, _ in calls]
        message = vf.AssistantMessage(content=text, tool_calls=asked or None)
        self._add(message, sampled=True)
        finish = "tool_calls" if calls else "stop"
        response = vf.Response(id="", created=0, model="policy", message=message, finish_reason=finish)
        for boundary, stop in self._stops:
            if boundary is vf.Response and await self._holds(stop, {vf.Response: response, vf.Trace: self.trace}):
                return False
        for request, result in calls:
            self._add(vf.ToolMessage(tool_call_id=request.call_id, content=result.text, name=request.tool))
        return bool(calls) and not await self._refuses()

    def close(self) -> None:
        """End the exchange."""
        self._is_open = False
        if self.trace.stop_condition is None:
            self.trace.stop("agent_completed" if self._task.data.prompt is not None else "user_closed")
        self.trace.is_completed = self.trace.ok = True

    def record(self) -> Json:
        """The run as JSON."""
        trace = self.trace
        return cast(
            "Json",
            {
                "data": self._task.data.model_dump(mode="json"),
                "state": _dumped(trace.state),
                "info": trace.info,
                "metrics": trace.metrics,
                "rewards": {name: _dumped(reward) for name, reward in trace.rewards.items()},
                "stop_condition": trace.stop_condition,
                "nodes": [{"message": _dumped(node.message), "sampled": node.sampled} for node in trace.nodes],
            },
        )

    def _opening(self) -> list[VerifiersMessage]:
        vf, data = self._package.vf, self._task.data
        system = [] if data.system_prompt is None else [vf.SystemMessage(content=data.system_prompt)]
        if isinstance(data.prompt, str):
            return [*system, vf.UserMessage(content=data.prompt)]
        return [*system, *cast("Sequence[VerifiersMessage]", data.prompt or ())]

    def _typed(self, message: VerifiersMessage) -> list[VerifiersMessage]:
        vf = self._package.vf
        if message is None:
            return []
        if isinstance(message, str):
            return [vf.UserMessage(content=message)]
        return [
            vf.UserMessage(content=cast("Mapping[str, object]", one)["content"]) if isinstance(one, Mapping) else one
            for one in cast("Sequence[VerifiersMessage]", message)
        ]

    def _add(self, message: object, *, sampled: bool = False) -> None:
        parent = len(self.trace.nodes) - 1 if self.trace.nodes else None
        self.trace.nodes.append(self._package.vf.MessageNode(parent=parent, message=message, sampled=sampled))

    async def _refuses(self) -> bool:
        """Whether a limit or a stop of the task forbids the next turn of the policy."""
        limit = self._package.max_turns
        if limit is not None and self.trace.num_turns >= limit:
            self.trace.stop("max_turns")
            return True
        vf = self._package.vf
        for boundary, stop in self._stops:
            if boundary is vf.Trace and await self._holds(stop, {vf.Trace: self.trace}):
                return True
            if boundary is vf.Request:
                raise EnvironmentBrokenError(f"its stop {stop.__name__} reads requests; the adapter cannot carry it")
        return False

    async def _holds(self, stop: Callable[..., object], available: Mapping[type, object]) -> bool:
        given = self._call_hook(stop, available)
        if await given if inspect.isawaitable(given) else given:
            self.trace.stop(stop.__name__)
            return True
        return False


def _dumped(model: VerifiersMessage) -> Json:
    return None if model is None else model.model_dump(mode="json")


async def _called(hook: Callable[..., object], **available: object) -> None:
    """Call a hook with what it names."""
    named = inspect.signature(hook).parameters
    given = hook(**{name: value for name, value in available.items() if name in named})
    if inspect.isawaitable(given):
        await given
