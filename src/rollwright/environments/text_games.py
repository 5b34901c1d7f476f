"""Games of commands: the policy writes one command a turn and reads what it sees then.

A game is rules over a flat state and a layout that never changes; this module makes an environment of it. The command
is the whole text of the turn, one of those that are listed; anything else is answered `nothing happens`, counted, and
leaves the state as it is. `state_hash` is of layout and state alone, so a state that is reached again, by whatever
path and in whichever attempt, has the same hash: what anchor-state credit compares.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, Protocol, cast

from rollwright.environments.call_rules import ACTOR
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    NamedValue,
    Observation,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import Payload, State, TaskError, layout_of, payload_of, read_json, state_key

__all__ = ["FINAL_STATE", "LOOK", "NOTHING_HAPPENS", "End", "GameRules", "TextGame", "TextGameEnvironment"]

FINAL_STATE = "final_state.json"
"""Artifact: {state, turns, invalid, return, commands}."""
NOTHING_HAPPENS = "nothing happens"
LOOK = "look"
"""A command that is always admissible and does nothing."""
End = Literal["environment_success", "environment_failure"]
_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""


class TextGame(Protocol):
    """Rules without memory: equal payload, state and command, equal outcome. Nothing here is drawn or counted."""

    @property
    def name(self) -> str:
        """Its name in the tables."""
        ...

    @property
    def revision(self) -> str:
        """Changes with the rules or the texts."""
        ...

    @property
    def idle_command(self) -> str | None:
        """What `look` and invalid commands amount to where time goes on by itself; None: the state stays as it is."""
        ...

    def begin(self, payload: Payload) -> State:
        """The first state."""
        ...

    def view(self, payload: Payload, state: State) -> str:
        """What is seen; it need not tell everything."""
        ...

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """What can be done, in a fixed order; `look` is added to it."""
        ...

    def act(self, payload: Payload, state: State, command: str) -> State:
        """The state after one of `commands`."""
        ...

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """What the command adds to the return; 0 where the final state alone counts."""
        ...

    def end(self, payload: Payload, state: State) -> End | None:
        """Whether the game is over."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GameRules:
    """What holds for every episode of a game."""

    turns: int = 10
    """Commands, invalid ones included; after the last the episode is lost, or over where returns count."""
    invalid_reward: float = 0.0
    """Paid to the turn of an invalid command, beside what verifiers say; 0 pays nothing."""

    def __post_init__(self) -> None:
        """Refuse an episode without a turn and a prize for nonsense."""
        if self.turns < 1 or not -1000 <= self.invalid_reward <= 0:
            raise EnvironmentSetupError(f"{self}: turns must be at least 1, invalid_reward in -1000..0")


@dataclass(slots=True, eq=False)
class _Progress:
    """All that an episode remembers."""

    state: State
    total: float = 0.0
    commands: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Each with its status: ok or invalid."""
    has_ended: bool = False


class TextGameEnvironment:
    """The environment of a game."""

    def __init__(
        self, game: TextGame, *, rules: GameRules | None = None, demonstrate: DemonstrateFn | None = None
    ) -> None:
        self._game = game
        self._rules = rules or GameRules()
        self._demonstrate = demonstrate
        self._revision = digest([_BEHAVIOR, game.name, game.revision, self._rules.turns, self._rules.invalid_reward])[
            :16
        ]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._game.name

    @property
    def revision(self) -> str:
        """A digest of the game and its limits."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def tools(self) -> Mapping[str, str]:
        """None: commands are text."""
        return MappingProxyType({})

    @property
    def limits(self) -> Mapping[str, float]:
        """How many commands an episode takes."""
        return MappingProxyType({"turns": self._rules.turns})

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where this environment was given nothing to demonstrate with.
        """
        return demonstrated(self.name, self._demonstrate, task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["TextGameEpisode"]:
        """Open a single-use episode; nothing of it is shared with another."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["TextGameEpisode"]:
        try:
            payload = payload_of(task)
            layout_of(payload)
            progress = _Progress(state=self._game.begin(payload))
        except TaskError as error:
            raise EnvironmentBrokenError(str(error)) from error
        if snapshot is not None:
            progress = _restored(snapshot, task, seed)
        yield TextGameEpisode(self._game, self._rules, task, payload, progress, seed)


class TextGameEpisode:
    """One episode; see `record.Episode`."""

    def __init__(  # noqa: PLR0913 - made by its environment alone
        self, game: TextGame, rules: GameRules, task: Task, payload: Payload, progress: _Progress, seed: int
    ) -> None:
        self._game = game
        self._rules = rules
        self._task_id = task.task_id
        self._payload = payload
        self._progress = progress
        self._seed = seed
        self._world = f"{game.name}:{game.revision}"

    @property
    def tools(self) -> Mapping[str, str]:
        """None."""
        return MappingProxyType({})

    async def begin(self) -> StepResult:
        """The task and the first view; an episode from a snapshot goes on with an open turn and no new message."""
        if self._progress.commands:
            return self._turn(())
        *before, asked = self._payload.messages
        opening = Message(role="user", text=f"{asked.text}\n{self._seen()}")
        return self._turn((*before, opening))

    async def call(self, request: ToolRequest) -> ToolResult:
        """There are no tools; the turn then counts as an invalid command."""
        return ToolResult(
            call_id=request.call_id, status="invalid_call", text="error: there are no tools; write one command"
        )

    async def step(self, action: Action) -> StepResult:
        """Take one command."""
        progress = self._progress
        if progress.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        command = action.text.strip()
        is_valid = action.parse_error is None and not action.calls and command in self._commands()
        progress.commands.append((command, "ok" if is_valid else "invalid"))
        taken = command if is_valid and command != LOOK else self._game.idle_command
        if taken is not None:
            after = self._game.act(self._payload, progress.state, taken)
            progress.total += self._game.reward(self._payload, progress.state, taken, after)
            progress.state = after
        end = self._game.end(self._payload, progress.state)
        if end is None and len(progress.commands) >= self._rules.turns:
            end = "environment_failure"
        rewards = () if is_valid or not self._rules.invalid_reward else self._penalty()
        if end is not None:
            progress.has_ended = True
            return StepResult(observations=(), rewards=rewards, end=end)
        said = self._seen() if is_valid else f"{NOTHING_HAPPENS}\n{self._seen()}"
        return StepResult(observations=self._turn((Message(role="user", text=said),)).observations, rewards=rewards)

    async def artifacts(self) -> Mapping[str, bytes]:
        """The final state, and what was commanded."""
        progress = self._progress
        left = {
            "state": progress.state,
            "turns": len(progress.commands),
            "invalid": sum(status == "invalid" for _, status in progress.commands),
            "return": progress.total,
            "commands": progress.commands,
        }
        return {FINAL_STATE: canonical_json(left).encode()}

    async def snapshot(self) -> bytes:
        """The progress as canonical JSON."""
        progress = self._progress
        saved = {
            "task_id": self._task_id,
            "seed": self._seed,
            "state": progress.state,
            "total": progress.total,
            "commands": progress.commands,
            "has_ended": progress.has_ended,
        }
        return canonical_json(saved).encode()

    def _commands(self) -> tuple[str, ...]:
        return (*self._game.commands(self._payload, self._progress.state), LOOK)

    def _seen(self) -> str:
        view = self._game.view(self._payload, self._progress.state)
        return "\n".join([view, "you can:", *self._commands()])

    def _turn(self, messages: tuple[Message, ...]) -> StepResult:
        key = state_key(self._world, layout_of(self._payload), self._progress.state)
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=key),))

    def _penalty(self) -> tuple[NamedValue, ...]:
        return (NamedValue(name="invalid_command", value=self._rules.invalid_reward),)


def _restored(snapshot: bytes, task: Task, seed: int) -> _Progress:
    """Read a progress again.

    Raises:
        EnvironmentBrokenError: where it is none of this task and seed.
    """
    try:
        loaded = cast("Mapping[str, object]", read_json(snapshot.decode()))
        if loaded["task_id"] != task.task_id or loaded["seed"] != seed:
            raise ValueError(f"it is of task {loaded['task_id']} and seed {loaded['seed']}")
        commands = [(command, status) for command, status in cast("Sequence[tuple[str, str]]", loaded["commands"])]
        return _Progress(
            state=cast("State", loaded["state"]),
            total=cast("float", loaded["total"]),
            commands=commands,
            has_ended=cast("bool", loaded["has_ended"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentBrokenError(f"the snapshot does not fit task {task.task_id}: {error}") from error
