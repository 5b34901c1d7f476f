"""Several turns over a state of the episode's own: tools that change it, and whoever answers what is said.

A scenario says which tools there are and opens a state; this module keeps the limits, reads arguments, and turns what
the policy got wrong into text. The hash of a state is that of its standing alone: two paths to the same rows meet.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast

from rollwright.environments.call_rules import ACTOR, Refusal, ToolLimits, complaint, read_call
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import ToolError
from rollwright.environments.schemas import ArgumentError, Arguments, FunctionSchema
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
from rollwright.tasks import Json, TaskError, read_json

__all__ = ["EpisodeState", "Scenario", "StatefulEnvironment", "StatefulEpisode"]

_BEHAVIOR = 1
"""Of this module's own rules; part of every revision."""
_LARGEST = 2**63 - 1


class EpisodeState(Protocol):
    """What one episode works on; nothing of it is shared."""

    def opening(self) -> tuple[Message, ...]:
        """What the policy is told first."""
        ...

    def call(self, tool: str, arguments: Arguments) -> str:
        """Run a tool of the scenario; quick, it runs in the event loop.

        Raises:
            ToolError: for what the policy asked wrongly.
        """
        ...

    def reply(self, text: str) -> str | None:
        """The answer to a turn without a call; None ends the episode."""
        ...

    def standing(self) -> Json:
        """What makes two moments the same, however they were come by; the state hash is of this."""
        ...

    def content(self) -> Json:
        """All that a snapshot needs, the limits aside."""
        ...

    def artifacts(self) -> Mapping[str, bytes]:
        """What verifiers need."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class Scenario(Protocol):
    """A kind of state with its tools."""

    @property
    def name(self) -> str:
        """In the tables."""
        ...

    @property
    def revision(self) -> str:
        """Of tools and rules."""
        ...

    @property
    def schemas(self) -> Mapping[str, FunctionSchema]:
        """Name to what a tool takes."""
        ...

    def open(self, task: Task, seed: int) -> EpisodeState:
        """The state in which a task begins.

        Raises:
            TaskError: for a task of another scenario.
        """
        ...

    def restore(self, task: Task, seed: int, content: Json) -> EpisodeState:
        """The state whose content was kept.

        Raises:
            TaskError: for content that is none.
        """
        ...


@dataclass(slots=True, eq=False)
class _Progress:
    task_id: str
    seed: int
    turns: int = 0
    calls: int = 0
    has_ended: bool = False

    def json(self) -> dict[str, Json]:
        return {
            "task_id": self.task_id,
            "seed": self.seed,
            "turns": self.turns,
            "calls": self.calls,
            "has_ended": self.has_ended,
        }


class StatefulEnvironment:
    """A kind of episode over a scenario."""

    def __init__(
        self, scenario: Scenario, *, limits: ToolLimits | None = None, demonstrate: DemonstrateFn | None = None
    ) -> None:
        self._scenario = scenario
        self._limits = limits or ToolLimits()
        self._demonstrate = demonstrate
        self._schemas = MappingProxyType({name: schema.text() for name, schema in scenario.schemas.items()})
        limited = [self._limits.calls, self._limits.result_characters, self._limits.argument_characters]
        self._revision = digest([_BEHAVIOR, scenario.name, scenario.revision, dict(self._schemas), limited])[:16]

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self._scenario.name

    @property
    def revision(self) -> str:
        """A digest of scenario, tools and limits."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def limits(self) -> Mapping[str, float]:
        """What an episode may ask of its tools."""
        limits = self._limits
        return MappingProxyType(
            {
                "calls": limits.calls,
                "result_characters": limits.result_characters,
                "argument_characters": limits.argument_characters,
            }
        )

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to schema, the same in every episode."""
        return self._schemas

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where it was given nothing to demonstrate with.
        """
        return demonstrated(self.name, self._demonstrate, task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["StatefulEpisode"]:
        """Open a single-use episode; its state is closed when the context is left."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["StatefulEpisode"]:
        state, progress = self._begun(task, seed) if snapshot is None else self._restored(task, seed, snapshot)
        try:
            yield StatefulEpisode(
                state=state,
                progress=progress,
                schemas=self._schemas,
                parameters=self._scenario.schemas,
                limits=self._limits,
            )
        finally:
            state.close()

    def _begun(self, task: Task, seed: int) -> tuple[EpisodeState, _Progress]:
        try:
            return self._scenario.open(task, seed), _Progress(task_id=task.task_id, seed=seed)
        except TaskError as error:
            raise EnvironmentBrokenError(f"task {task.task_id} is none of {self.name}: {error}") from error

    def _restored(self, task: Task, seed: int, snapshot: bytes) -> tuple[EpisodeState, _Progress]:
        try:
            loaded = dict(cast("Mapping[str, Json]", read_json(snapshot.decode())))
            content = loaded["state"]
            if loaded["task_id"] != task.task_id or loaded["seed"] != seed:
                raise ValueError(f"it is of task {loaded['task_id']} and seed {loaded['seed']}")
            progress = _Progress(
                task_id=task.task_id,
                seed=seed,
                turns=cast("int", loaded["turns"]),
                calls=cast("int", loaded["calls"]),
                has_ended=cast("bool", loaded["has_ended"]),
            )
            return self._scenario.restore(task, seed, content), progress
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentBrokenError(f"the snapshot does not fit task {task.task_id}: {error}") from error


class StatefulEpisode:
    """One episode; see `record.Episode`."""

    def __init__(
        self,
        *,
        state: EpisodeState,
        progress: _Progress,
        schemas: Mapping[str, str],
        parameters: Mapping[str, FunctionSchema],
        limits: ToolLimits,
    ) -> None:
        self._state = state
        self._progress = progress
        self._schemas = schemas
        self._parameters = parameters
        self._limits = limits

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        return self._schemas

    async def begin(self) -> StepResult:
        """What the policy is told first; an episode from a snapshot goes on with an open turn and no new message."""
        return self._open_turn(self._state.opening() if self._progress.turns == 0 else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call.

        Raises:
            EnvironmentBrokenError: where the tool itself failed.
        """
        self._progress.calls += 1
        status, text = self._answer(request)
        shown = cut_text(clean_text(text), self._limits.result_characters)
        return ToolResult(call_id=request.call_id, status=status, text=shown)

    async def step(self, action: Action) -> StepResult:
        """Take a finished turn: after calls it is the policy's again; what is said without one may be answered."""
        if self._progress.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._progress.turns += 1
        if action.parse_error is not None:
            return self._open_turn((complaint(action.parse_error, self._limits),))
        if action.calls:
            return self._open_turn(())
        answer = self._state.reply(action.text)
        if answer is None:
            self._progress.has_ended = True
            return StepResult(observations=())
        return self._open_turn((Message(role="user", text=answer),))

    async def artifacts(self) -> Mapping[str, bytes]:
        """What the state leaves."""
        return self._state.artifacts()

    async def snapshot(self) -> bytes:
        """State and limits as canonical JSON."""
        return canonical_json({**self._progress.json(), "state": self._state.content()}).encode()

    def _open_turn(self, messages: Sequence[Message]) -> StepResult:
        state_hash = digest(self._state.standing())
        return StepResult(observations=(Observation(actor=ACTOR, messages=tuple(messages), state_hash=state_hash),))

    def _answer(self, request: ToolRequest) -> tuple[str, str]:
        """Status and text."""
        read = read_call(request, self._progress.calls - 1, limits=self._limits, schemas=self._parameters)
        if isinstance(read, Refusal):
            return read.status, read.text
        try:
            return "ok", self._state.call(request.tool, _storable(read))
        except ArgumentError as error:
            return "invalid_call", f"error: {error}"
        except ToolError as error:
            return "tool_error", f"error: {error}"
        except Exception as error:  # noqa: BLE001 - the one place where a tool's own failure becomes a record
            raise EnvironmentBrokenError(f"tool {request.tool} failed: {type(error).__name__}: {error}") from error


def _storable(arguments: Arguments) -> Arguments:
    """Arguments that a database can hold: clean text, numbers of 64 bits."""
    for name, value in arguments.items():
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise ArgumentError(f"argument {name} is too large a number")
    return {name: clean_text(value) if isinstance(value, str) else value for name, value in arguments.items()}
