"""Worlds with AppWorld's interface: `execute(code)` on apps behind an API, `task_completed()`, `evaluate()`, `close()`.

    with make(task_id) as world:  world.task.instruction ──► policy ──execute──► world.execute(code) ──► its output

A row of a task holds `task_id`. The one tool is `execute`; an episode is over when the world says that the task is
completed, or with the first turn that calls nothing. The evaluation is the world's own: the share of its tests that
passed is left as `tests`, and only all of them are a success.

The code of the policy is run by the world, wherever that runs it. A world that runs it in this process is no wall:
connect to its server, which keeps it apart.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MappingProxyType
from typing import Protocol

from rollwright.environments.adapters.foreign import ForeignCode
from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.schemas import ArgumentError, read_arguments, schema_of
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import Action, EnvironmentBrokenError, Message, NamedValue, Task, ToolRequest, ToolResult
from rollwright.tasks import payload_of

__all__ = ["AppWorldApi", "AppWorldGames"]


class _Asked(Protocol):
    @property
    def instruction(self) -> str: ...


class _Evaluated(Protocol):
    @property
    def success(self) -> bool: ...
    @property
    def num_tests(self) -> int: ...
    @property
    def passes(self) -> Sequence[object]: ...


class AppWorldApi(Protocol):
    """What of a world is called."""

    @property
    def task(self) -> _Asked:
        """Holds the instruction."""
        ...

    def execute(self, code: str) -> str:
        """Run code, and give what it printed."""
        ...

    def task_completed(self) -> bool:
        """Whether the policy has declared the task done."""
        ...

    def evaluate(self) -> _Evaluated:
        """Run the task's tests on the state of the apps."""
        ...

    def close(self) -> None:
        """End it."""
        ...


class AppWorldGames:
    """Episodes of such worlds; `open` is a `StartFn`."""

    def __init__(self, make: Callable[[str], AppWorldApi]) -> None:
        """Store the callable that opens the world of a task id."""
        self._make = make
        self._threads = ToolThreads()

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Open the world of the task that a row names."""
        return self._opened(task, seed)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int) -> AsyncGenerator[Game]:
        row = payload_of(task).info.get("row")
        task_id = row.get("task_id") if isinstance(row, Mapping) else None
        if not isinstance(task_id, str):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.row.task_id`; it is no task of this world")
        code = ForeignCode(self._threads, task.source, seed)
        world = await code.run(lambda: self._make(task_id))
        try:
            yield _AppGame(world, code)
        finally:
            await code.run(world.close)


def execute(code: str) -> str:
    """Run Python code in the world, and give what it prints.

    Args:
        code: may call the apps as `apis.app.function(...)`; variables are kept
    """
    raise NotImplementedError("the world runs it; this is the signature that the policy is shown")


_EXECUTE = schema_of(execute)


class _AppGame:
    """One world as a `Game`."""

    def __init__(self, world: AppWorldApi, code: ForeignCode) -> None:
        self._world = world
        self._code = code

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType({_EXECUTE.name: _EXECUTE.text()})

    async def begin(self) -> Move:
        return Move(messages=(Message(role="user", text=self._world.task.instruction),))

    async def call(self, request: ToolRequest) -> ToolResult:
        if request.tool != _EXECUTE.name:
            return self._invalid(request, f"unknown tool {request.tool[:40]!r}; available: {_EXECUTE.name}")
        try:
            written = str(read_arguments(_EXECUTE, request.arguments)["code"])
        except ArgumentError as error:
            return self._invalid(request, str(error))
        printed = await self._code.run(lambda: self._world.execute(written))
        return ToolResult(call_id=request.call_id, status="ok", text=str(printed))

    async def act(self, action: Action) -> Move:
        if action.calls and not await self._code.run(self._world.task_completed):
            return Move()
        evaluated = await self._code.run(self._world.evaluate)
        passed = len(evaluated.passes) / max(1, evaluated.num_tests)
        return Move(is_over=True, reward=float(evaluated.success), components=(NamedValue(name="tests", value=passed),))

    async def leave(self) -> Departure:
        return Departure()

    def _invalid(self, request: ToolRequest, said: str) -> ToolResult:
        return ToolResult(call_id=request.call_id, status="invalid_call", text=f"error: {said}")
