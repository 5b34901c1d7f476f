"""Environment classes of TRL: `reset(**row)`, public methods as tools, and `get_reward()` or reward functions.

A row holds `prompt` and what else the class and its reward functions are given by name. The text that `reset` returns
comes after the prompt's last message, as there. An episode is over with the turn that calls no tool.
"""

import inspect
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import MethodType
from typing import Protocol, cast

from rollwright.environments.adapters.foreign import ForeignCode
from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.adapters.method_tools import MethodTools, public_methods
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import Action, EnvironmentBrokenError, Message, NamedValue, Task, ToolRequest, ToolResult
from rollwright.tasks import Json, payload_of

__all__ = ["RewardFn", "TrlClass"]

RewardFn = Callable[..., Sequence[float | None]]
"""As TRL calls it: prompts, completions, environments and the row's columns, each a list of one, to a list of one."""
_NOT_TOOLS = ("reset", "get_reward")
_Row = Mapping[str, Json]


class _TrlObject(Protocol):
    def reset(self, **row: object) -> object: ...


class TrlClass:
    """Episodes of one class; `open` is a `StartFn`."""

    def __init__(self, factory: Callable[[], object], rewards: Mapping[str, RewardFn]) -> None:
        """Make one object to look at.

        Args:
            factory: without arguments; an object for each episode.
            rewards: further reward functions by name; needed where the class has no `get_reward`.

        Raises:
            EnvironmentSetupError: for a class without `reset`, without a reward, or with a tool that says too little.
        """
        kind = type(factory())
        methods = {name: member for name, member in inspect.getmembers(kind, inspect.isfunction)}
        if "reset" not in methods:
            raise EnvironmentSetupError(f"{kind.__name__} has no reset(**row); it is no environment class of TRL")
        if "get_reward" not in methods and not rewards:
            raise EnvironmentSetupError(
                f"{kind.__name__} has no get_reward(); name reward functions (package.module:function) in `rewards`"
            )
        self._factory = factory
        self._rewards = rewards
        self._pays = "get_reward" in methods
        self._names = public_methods(kind, apart_from=_NOT_TOOLS)
        self._threads = ToolThreads()
        self._tools_of(factory())

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Make an object."""
        return self._opened(task, seed)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int) -> AsyncGenerator[Game]:
        payload = payload_of(task)
        row = payload.info.get("row")
        if not isinstance(row, Mapping):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.row`; it is no task of this world")
        code = ForeignCode(self._threads, task.source, seed)
        made = await code.run(self._factory)
        yield _TrlGame(owner=self, made=made, tools=self._tools_of(made), row=row, asked=payload.messages, code=code)

    def _tools_of(self, made: object) -> MethodTools:
        return MethodTools({name: cast("Callable[..., object]", _member(made, name)) for name in self._names})

    def worth(self, made: object, row: _Row, asked: Sequence[Message], said: Sequence[Message]) -> Departure:
        """What an object and the reward functions pay for what was said."""
        parts: list[NamedValue] = []
        if self._pays:
            own = cast("Callable[[], float]", _member(made, "get_reward"))
            parts.append(NamedValue(name="get_reward", value=float(own())))
        columns = {name: [value] for name, value in row.items() if name != "prompt"}
        prompts, completions = [_chat(asked)], [_chat(said)]
        for name, function in self._rewards.items():
            (given,) = function(prompts=prompts, completions=completions, environments=[made], **columns)
            if given is not None:
                parts.append(NamedValue(name=name, value=float(given)))
        if not parts:
            raise EnvironmentBrokenError("none of its reward functions gave a number")
        return Departure(reward=sum(part.value for part in parts), components=tuple(parts))


class _TrlGame:
    def __init__(  # noqa: PLR0913 - made by its class alone
        self,
        *,
        owner: TrlClass,
        made: object,
        tools: MethodTools,
        row: _Row,
        asked: Sequence[Message],
        code: ForeignCode,
    ) -> None:
        self._owner = owner
        self._made = made
        self._tools = tools
        self._row = row
        self._asked = asked
        self._code = code
        self._said: list[Message] = []
        self._is_paid = False

    @property
    def tools(self) -> Mapping[str, str]:
        return self._tools.definitions

    async def begin(self) -> Move:
        made = cast("_TrlObject", self._made)
        said = await self._code.run(lambda: made.reset(**self._row))
        if said is None:
            return Move(messages=tuple(self._asked))
        if not isinstance(said, str):
            raise EnvironmentBrokenError(f"its reset returns a {type(said).__name__}; only text or None can be carried")
        last = self._asked[-1]
        return Move(messages=(*self._asked[:-1], Message(role=last.role, text=last.text + said)))

    async def call(self, request: ToolRequest) -> ToolResult:
        result = await self._tools.call(request, self._code)
        self._said.append(Message(role="tool", text=result.text))
        return result

    async def act(self, action: Action) -> Move:
        place = len(self._said) - len(action.calls)
        self._said.insert(place, Message(role="assistant", text=action.text))
        if action.calls:
            return Move()
        worth = await self._worth()
        return Move(reward=worth.reward, components=worth.components, is_over=True)

    async def leave(self) -> Departure:
        return Departure() if self._is_paid else await self._worth()

    async def _worth(self) -> Departure:
        self._is_paid = True
        return await self._code.run(lambda: self._owner.worth(self._made, self._row, self._asked, self._said))


def _member(made: object, name: str) -> object:
    """A method, bound, as the class that defines it last has it."""
    kind = next(kind for kind in type(made).__mro__ if name in vars(kind))
    return MethodType(vars(kind)[name], made)


def _chat(messages: Sequence[Message]) -> list[dict[str, str]]:
    return [{"role": message.role, "content": message.text} for message in messages]
