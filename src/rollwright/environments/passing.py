"""What environments share that stand before another one: they are that one in all but how an episode is asked."""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, TypeVar

from rollwright.record import Action, Environment, Episode, StepResult, Task, ToolRequest, ToolResult

__all__ = ["Asked", "PassingEnvironment", "PassingEpisode"]

_Given = TypeVar("_Given")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What an episode is asked for."""

    kind: Literal["begin", "call", "step", "artifacts", "snapshot"]
    what: str
    """As a sentence names it."""


class PassingEnvironment(ABC):
    """An environment before another: name, revision and actors are those of the one behind."""

    def __init__(self, environment: Environment) -> None:
        """Stand before `environment`."""
        self._environment = environment

    @property
    def name(self) -> str:
        """Of the environment behind."""
        return self._environment.name

    @property
    def revision(self) -> str:
        """Of the environment behind."""
        return self._environment.revision

    @property
    def actors(self) -> Mapping[str, str]:
        """Of the environment behind."""
        return self._environment.actors

    @abstractmethod
    def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AbstractAsyncContextManager[Episode]:
        """An episode before one of the environment behind."""

    def _behind(self, task: Task, seed: int, snapshot: bytes | None) -> AbstractAsyncContextManager[Episode]:
        """The episode behind; one from outside may know no snapshots, and is not told of none."""
        if snapshot is None:
            return self._environment.open(task, seed=seed)
        return self._environment.open(task, seed=seed, snapshot=snapshot)


class PassingEpisode(ABC):
    """An episode before another: what is asked goes through one method to the one behind."""

    def __init__(self, episode: Episode) -> None:
        """Stand before `episode`."""
        self._episode = episode

    @property
    def tools(self) -> Mapping[str, str]:
        """Of the episode behind."""
        return self._episode.tools

    async def begin(self) -> StepResult:
        """Of the episode behind."""
        return await self._through(Asked(kind="begin", what="its beginning"), self._episode.begin)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Of the episode behind."""
        asked = Asked(kind="call", what=f"tool {request.tool}")
        return await self._through(asked, lambda: self._episode.call(request))

    async def step(self, action: Action) -> StepResult:
        """Of the episode behind."""
        return await self._through(Asked(kind="step", what="its step"), lambda: self._episode.step(action))

    async def artifacts(self) -> Mapping[str, bytes]:
        """Of the episode behind."""
        return await self._through(Asked(kind="artifacts", what="its artifacts"), self._episode.artifacts)

    async def snapshot(self) -> bytes:
        """Of the episode behind."""
        return await self._through(Asked(kind="snapshot", what="its snapshot"), self._episode.snapshot)

    @abstractmethod
    async def _through(self, asked: Asked, answer: Callable[[], Awaitable[_Given]]) -> _Given:
        """Have the episode behind answer, once.

        Args:
            asked: what for.
            answer: asks it.
        """
