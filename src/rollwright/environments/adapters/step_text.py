"""Environments with `init(prompt)` and `step(action)`: text in, a map of observations, reward and done out (SkyRL-Gym).

An environment is named by its id in the registry of `skyrl_gym`, or by `package.module:Class`; a package with its
version may be asked for, so that a run that is done again is done in the same one.
"""

import importlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Protocol, cast

from rollwright.environments.adapters.foreign import ForeignCode, brief
from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import Action, EnvironmentBrokenError, Message, NamedValue, Task, ToolRequest, ToolResult
from rollwright.tasks import Json, payload_of

__all__ = ["StepText", "entry_of", "require_package"]

MakeFn = Callable[..., "_StepEnv"]
"""(env_config, extras) to an environment."""


class _StepEnv(Protocol):
    def init(self, prompt: list[dict[str, str]]) -> tuple[object, object]: ...
    def step(self, action: str) -> Mapping[str, object]: ...
    def close(self) -> object: ...
    def get_metrics(self) -> Mapping[str, object]: ...


class StepText:
    """Episodes of one kind; `open` is a `StartFn`."""

    def __init__(self, make: MakeFn, settings: Mapping[str, Json]) -> None:
        """Store the parts.

        Args:
            make: an environment for each episode.
            settings: given as `env_config`, read by attribute and by key.
        """
        self._make = make
        self._settings = settings
        self._threads = ToolThreads()

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Make an environment of a task's row."""
        return self._opened(task, seed)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int) -> AsyncGenerator[Game]:
        payload = payload_of(task)
        row = payload.info.get("row")
        if not isinstance(row, Mapping):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.row`; it is no task of this world")
        code = ForeignCode(self._threads, task.source, seed)
        extras = {name: value for name, value in row.items() if name != "prompt"}
        made = await code.run(lambda: self._make(env_config=_Settings(self._settings), extras=extras))
        try:
            yield _StepGame(made, payload.messages, code)
        finally:
            await code.run(made.close)


class _Settings(dict[str, Json]):
    """A configuration that is read both ways, as such environments do."""

    def __getattr__(self, name: str) -> Json:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the world's argument settings has no {name!r}") from None


class _StepGame:
    def __init__(self, made: _StepEnv, asked: Sequence[Message], code: ForeignCode) -> None:
        self._made = made
        self._asked = asked
        self._code = code

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType({})

    async def begin(self) -> Move:
        prompt = [{"role": message.role, "content": message.text} for message in self._asked]
        opened, _ = await self._code.run(lambda: self._made.init(prompt))
        return Move(messages=_messages(opened))

    async def call(self, request: ToolRequest) -> ToolResult:
        return ToolResult(call_id=request.call_id, status="invalid_call", text="error: tools are called in the text")

    async def act(self, action: Action) -> Move:
        if action.calls:
            return Move()
        given = await self._code.run(lambda: self._made.step(action.text))
        rewritten = given.get("postprocessed_action")
        if rewritten is not None and rewritten != action.text:
            raise EnvironmentBrokenError(
                "it rewrites what the policy said (postprocessed_action); the tokens that were sampled stand, so this "
                "cannot be carried"
            )
        reward = given["reward"]
        if not isinstance(reward, int | float):
            raise EnvironmentBrokenError(f"it pays a {type(reward).__name__}; only a number a turn can be carried")
        metrics = await self._code.run(self._made.get_metrics)
        return Move(
            messages=_messages(given["observations"]),
            reward=float(reward),
            components=tuple(
                NamedValue(name=name, value=float(value))
                for name, value in metrics.items()
                if isinstance(value, int | float)
            ),
            is_over=bool(given["done"]),
        )

    async def leave(self) -> Departure:
        return Departure()


def entry_of(entry: str) -> MakeFn:
    """How an environment is made: an id of `skyrl_gym`'s registry, or `package.module:Class`.

    Raises:
        EnvironmentSetupError: where there is no such environment.
    """
    try:
        if ":" in entry:
            module, _, name = entry.partition(":")
            return cast("MakeFn", vars(importlib.import_module(module))[name])
        gym = importlib.import_module("skyrl_gym")
        gym.spec(entry)
    except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
        raise EnvironmentSetupError(
            f"no environment {entry!r}: {brief(error)}. Name an id of skyrl_gym's registry (rollwright[skyrl-gym]), or "
            "package.module:Class"
        ) from error

    def make(**parts: object) -> _StepEnv:
        return gym.make(entry, **parts)

    return make


def require_package(package: str, wanted: str) -> str:
    """The version of a package, where it is the wanted one.

    Args:
        package: as it was installed.
        wanted: exact; empty for any.

    Raises:
        EnvironmentSetupError: where it is missing or another.
    """
    try:
        found = version(package)
    except PackageNotFoundError as error:
        raise EnvironmentSetupError(
            f"package {package!r} is not installed; install {package}=={wanted or '…'}"
        ) from error
    if wanted and found != wanted:
        raise EnvironmentSetupError(
            f"the world asks for {package} {wanted} and {found} is installed; install {package}=={wanted}, or ask for "
            f"{found}"
        )
    return found


def _messages(given: object) -> tuple[Message, ...]:
    found: list[Message] = []
    for one in cast("Sequence[Mapping[str, object]]", given):
        role, content = one["role"], one["content"]
        if not isinstance(role, str) or not isinstance(content, str):
            raise EnvironmentBrokenError(f"an observation holds a {type(content).__name__}; only text can be carried")
        found.append(Message(role=role, text=content))
    return tuple(found)
