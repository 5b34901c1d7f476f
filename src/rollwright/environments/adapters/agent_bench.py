"""Tasks written for AgentBench's task server: `start_sample(index, session)` that asks `session.action()` for turns.

    sample ──action(messages)──► what was said since the last turn ──► policy ──turn──► AgentTurn ──► sample
       └──return──► status and result ──► reward, `sample.json`

A row of a task holds `index`. The sample runs beside the episode and is cancelled with it. A history that is rewritten
(`session.clear()`) cannot be carried, since what the policy was shown stands; it is refused by name.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast, runtime_checkable

from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.record import Action, EnvironmentBrokenError, Message, Task, ToolRequest, ToolResult, canonical_json
from rollwright.tasks import Json, payload_of

__all__ = ["AgentBench", "AgentTurn", "BenchSession", "BenchTask", "SampleRewardFn"]

SAMPLE = "sample.json"
_COMPLETED = "completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTurn:
    """What `session.action()` gives: their AgentOutput."""

    status: str = "normal"
    content: str | None = None


class BenchTask(Protocol):
    """What of a task is called."""

    async def start_sample(self, index: int | str, session: "BenchSession") -> object:
        """Run one sample to its end."""
        ...


@runtime_checkable
class _Spoken(Protocol):
    """Their ChatHistoryItem."""

    role: str
    content: str


@runtime_checkable
class _Finished(Protocol):
    """Their TaskSampleExecutionResult."""

    status: object
    result: object


SampleRewardFn = Callable[[str, object], float]
"""(status, result) of a sample to what it is worth."""


class BenchSession:
    """The session that a sample is given."""

    def __init__(self) -> None:
        self.history: list[Mapping[str, str]] = []
        self._asked: asyncio.Queue[tuple[Message, ...] | None] = asyncio.Queue(maxsize=2)
        self._turns: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        self._num_shown = 0

    def inject(self, item: object) -> None:
        """Say something, or a list of things; nothing at all is nothing.

        Raises:
            TypeError: for what is neither a map nor an object of role and content.
        """
        if isinstance(item, list | tuple):
            for one in cast("Sequence[object]", item):
                self.inject(one)
        elif isinstance(item, Mapping):
            said = cast("Mapping[str, str]", item)
            self.history.append({"role": said["role"], "content": said["content"]})
        elif isinstance(item, _Spoken):
            self.history.append({"role": str(item.role), "content": str(item.content)})
        elif item:
            raise TypeError(f"a {type(item).__name__} was injected; it must have role and content")

    def clear(self) -> None:
        """Refused.

        Raises:
            EnvironmentBrokenError: always.
        """
        raise EnvironmentBrokenError(
            "its sample calls session.clear(); what the policy was shown stands, so this cannot be carried"
        )

    async def action(self, *injection: object) -> AgentTurn:
        """Ask the policy for a turn."""
        self.inject(list(injection))
        fresh = self.history[self._num_shown :]
        await self._asked.put(tuple(_message(said) for said in fresh))
        content = await self._turns.get()
        self.history.append({"role": "agent", "content": content})
        self._num_shown = len(self.history)
        return AgentTurn(content=content)

    async def next_messages(self) -> tuple[Message, ...] | None:
        """What the sample says until its next question; None where it is over."""
        return await self._asked.get()

    async def take(self, content: str) -> None:
        """Hand a turn of the policy to the sample."""
        await self._turns.put(content)

    async def finish(self) -> None:
        """Say that there is no further question."""
        await self._asked.put(None)


class AgentBench:
    """Samples of one task; `open` is a `StartFn`."""

    def __init__(self, make: Callable[[], BenchTask], reward: SampleRewardFn) -> None:
        """Store the parts.

        Args:
            make: a task for each episode, so that samples share nothing.
            reward: what a finished sample is worth; the package leaves that to each task's own metric.
        """
        self._make = make
        self._reward = reward

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Begin the sample that a row names."""
        return self._opened(task)

    @asynccontextmanager
    async def _opened(self, task: Task) -> AsyncGenerator[Game]:
        row = payload_of(task).info.get("row")
        index = row.get("index") if isinstance(row, Mapping) else None
        if isinstance(index, bool) or not isinstance(index, int | str):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.row.index`; it is no sample of this world")
        game = _Sample(BenchSession(), self._reward)
        left: Exception | None = None
        async with asyncio.TaskGroup() as group:
            running = group.create_task(game.run(self._make(), index), name=f"sample {task.task_id}")
            try:
                yield game
            except Exception as error:  # noqa: BLE001 - raised again below, outside the group that would wrap it
                left = error
            finally:
                running.cancel()
        if left is not None:
            raise left


class _Sample:
    """One sample as a `Game`."""

    def __init__(self, session: BenchSession, reward: SampleRewardFn) -> None:
        self._session = session
        self._reward = reward
        self._status = "running"
        self._result: object = None
        self._failure: Exception | None = None

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType({})

    async def run(self, task: BenchTask, index: int | str) -> None:
        """The sample itself; what it raises is told at the next turn."""
        try:
            self._status, self._result = _read(await task.start_sample(index, self._session))
        except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
            self._failure = error
        await self._session.finish()

    async def begin(self) -> Move:
        return await self._until_asked()

    async def call(self, request: ToolRequest) -> ToolResult:
        return ToolResult(call_id=request.call_id, status="invalid_call", text="error: this world has no tools")

    async def act(self, action: Action) -> Move:
        if action.calls:
            return Move()
        await self._session.take(action.text)
        return await self._until_asked()

    async def leave(self) -> Departure:
        left = {"status": self._status, "result": cast("Json", self._result), "history": self._session.history}
        return Departure(artifacts={SAMPLE: canonical_json(left).encode()})

    async def _until_asked(self) -> Move:
        messages = await self._session.next_messages()
        if messages is not None:
            return Move(messages=messages)
        if self._failure is not None:
            raise self._failure
        return Move(is_over=True, reward=self._reward(self._status, self._result))


def _read(given: object) -> tuple[str, object]:
    """Status and result, of their record or of a bare map."""
    if isinstance(given, _Finished):
        return str(given.status).rpartition(".")[2].casefold(), given.result
    return _COMPLETED, given


def _message(said: Mapping[str, str]) -> Message:
    """`agent` is what we call assistant: an example that the sample shows."""
    role = "assistant" if said["role"] == "agent" else said["role"]
    return Message(role=role, text=said["content"])
