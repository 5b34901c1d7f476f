"""Games of other packages with the old interface: `reset()` and `step(action)`, in text.

    reset() -> observation, info                       step(action) -> observation, reward, done, info

ALFWorld gives lists with one entry for each game of a batch, here of one, and lists what can be done in
`info["admissible_commands"]`; WebShop gives an info of None. Both are taken as they are. Such a game cannot be copied,
so a snapshot holds the actions, and they are played again; a game that then says something else is broken.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, cast

from rollwright.environments.call_rules import ACTOR
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.text_games import FINAL_STATE
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
from rollwright.tasks import TaskError, payload_of, read_json

__all__ = ["MakeGameFn", "ResetStepEnvironment", "ResetStepGame", "ResetStepRules"]


class ResetStepGame(Protocol):
    """One game; the values may stand in lists of length one."""

    def reset(self) -> tuple[object, object]:
        """Observation and info."""
        ...

    def step(self, action: str) -> tuple[object, object, object, object]:
        """Observation, reward, done and info."""
        ...

    def close(self) -> None:
        """End it."""
        ...


MakeGameFn = Callable[[Task, int], ResetStepGame]
"""(task, reset seed) to a game that has not begun: equal arguments, equal game."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetStepRules:
    """What holds for every episode of such a game."""

    turns: int = 50
    won_reward: float = 1.0
    """A game that is done with at least this return was won."""
    observation_characters: int = 2000
    actions_key: str = "admissible_commands"
    """Where info lists what can be done; where it does not, nothing is listed and nothing is checked."""
    state_key: str = ""
    """Where info holds an identity of the state; empty: the observation is taken for it, as GiGPO does."""

    def __post_init__(self) -> None:
        """Refuse an episode without a turn."""
        if self.turns < 1 or self.observation_characters < 16:
            raise EnvironmentSetupError(f"{self}: turns must be at least 1, observation_characters at least 16")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a game said last, out of its lists."""

    text: str
    reward: float
    is_done: bool
    actions: tuple[str, ...]
    state: str


class ResetStepEnvironment:
    """An environment of such games."""

    def __init__(
        self,
        make: MakeGameFn,
        *,
        name: str,
        revision: str,
        rules: ResetStepRules | None = None,
        demonstrate: DemonstrateFn | None = None,
    ) -> None:
        """Store the parts.

        Args:
            make: a game for a task; its `reset` and `step` should answer at once, they run in the event loop.
            name: in the tables.
            revision: of the package and its data; nothing here can know it.
            rules: of the episodes.
            demonstrate: for a warm start, if there is anything to show.
        """
        self._make = make
        self._demonstrate = demonstrate
        self._name = name
        self._rules = rules or ResetStepRules()
        r = self._rules
        own = [name, revision, r.turns, r.won_reward, r.observation_characters, r.actions_key, r.state_key]
        self._revision = digest(own)[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._name

    @property
    def revision(self) -> str:
        """A digest of the game's revision and the rules."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def limits(self) -> Mapping[str, float]:
        """How many actions an episode takes, and how much of an observation is shown."""
        rules = self._rules
        return MappingProxyType({"turns": rules.turns, "observation_characters": rules.observation_characters})

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where there is nothing to demonstrate with.
        """
        return demonstrated(self._name, self._demonstrate, task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["ResetStepEpisode"]:
        """Open a single-use episode with a game of its own, which is closed when it is left."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["ResetStepEpisode"]:
        game = self._make(task, seed)
        try:
            episode = ResetStepEpisode(game, self._rules, task, seed)
            if snapshot is not None:
                episode.replay(snapshot)
            yield episode
        finally:
            game.close()


class ResetStepEpisode:
    """One episode; see `record.Episode`."""

    def __init__(self, game: ResetStepGame, rules: ResetStepRules, task: Task, seed: int) -> None:
        self._game = game
        self._rules = rules
        self._task = task
        self._seed = seed
        self._seen = _read(*game.reset(), rules)
        self._actions: list[str] = []
        self._invalid = 0
        self._total = 0.0

    @property
    def tools(self) -> Mapping[str, str]:
        """None: actions are text."""
        return MappingProxyType({})

    async def begin(self) -> StepResult:
        """The task and the first observation; after a replay an open turn and no new message."""
        if self._actions:
            return self._turn(())
        try:
            *before, asked = payload_of(self._task).messages
        except TaskError as error:
            raise EnvironmentBrokenError(str(error)) from error
        return self._turn((*before, Message(role="user", text=f"{asked.text}\n{self._shown()}")))

    async def call(self, request: ToolRequest) -> ToolResult:
        """There are no tools."""
        return ToolResult(
            call_id=request.call_id, status="invalid_call", text="error: there are no tools; write an action"
        )

    async def step(self, action: Action) -> StepResult:
        """Take one action, which is the whole text of the turn."""
        if self._seen.is_done or len(self._actions) >= self._rules.turns:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._take(action.text.strip())
        if self._seen.is_done:
            is_won = self._total >= self._rules.won_reward
            return StepResult(observations=(), end="environment_success" if is_won else "environment_failure")
        if len(self._actions) >= self._rules.turns:
            return StepResult(observations=(), end="environment_failure")
        return self._turn((Message(role="user", text=self._shown()),))

    async def artifacts(self) -> Mapping[str, bytes]:
        """Return, state and counts, in the form that `goal_state` and `return` read."""
        left = {
            "state": {"is_won": self._seen.is_done and self._total >= self._rules.won_reward, "at": self._seen.state},
            "turns": len(self._actions),
            "invalid": self._invalid,
            "return": self._total,
            "commands": self._actions,
        }
        return {FINAL_STATE: canonical_json(left).encode()}

    async def snapshot(self) -> bytes:
        """The actions, and the state that they must lead to again."""
        saved = {"task_id": self._task.task_id, "seed": self._seed, "actions": self._actions, "state": self._seen.state}
        return canonical_json(saved).encode()

    def replay(self, snapshot: bytes) -> None:
        """Play the actions of a snapshot again.

        Raises:
            EnvironmentBrokenError: where it is of another episode, or the game goes another way this time.
        """
        try:
            saved = cast("Mapping[str, object]", read_json(snapshot.decode()))
            if saved["task_id"] != self._task.task_id or saved["seed"] != self._seed:
                raise ValueError(f"it is of task {saved['task_id']} and seed {saved['seed']}")
            actions, state = cast("Sequence[str]", saved["actions"]), saved["state"]
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentBrokenError(f"the snapshot does not fit task {self._task.task_id}: {error}") from error
        for action in actions:
            self._take(action)
        if self._seen.state != state:
            raise EnvironmentBrokenError("the game went another way when its actions were played again")

    def _take(self, action: str) -> None:
        self._invalid += bool(self._seen.actions) and action not in self._seen.actions
        observation, reward, done, info = self._game.step(action)
        self._seen = _read(observation, info, self._rules, reward=reward, done=done)
        self._total += self._seen.reward
        self._actions.append(action)

    def _shown(self) -> str:
        shown = cut_text(clean_text(self._seen.text), self._rules.observation_characters)
        return "\n".join([shown, "you can:", *self._seen.actions]) if self._seen.actions else shown

    def _turn(self, messages: tuple[Message, ...]) -> StepResult:
        key = digest([self._task.task_id, self._seen.state])
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=key),))


def _read(
    observation: object, info: object, rules: ResetStepRules, *, reward: object = 0.0, done: object = False
) -> _Seen:
    """Take what a game said out of its lists.

    Raises:
        EnvironmentBrokenError: for an observation that is no text or a reward that is no number.
    """
    text, paid, facts = _alone(observation), _alone(reward), cast("Mapping[str, object]", info or {})
    if not isinstance(text, str) or not isinstance(paid, int | float):
        raise EnvironmentBrokenError(
            f"the game gave {type(text).__name__} and {type(paid).__name__}, not text and number"
        )
    listed = _alone(facts.get(rules.actions_key))
    several = cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else (listed,)
    actions = tuple(one for one in several if isinstance(one, str))
    state = str(_alone(facts.get(rules.state_key))) if rules.state_key else text
    return _Seen(text=text, reward=float(paid), is_done=bool(_alone(done)), actions=actions, state=state)


def _alone(value: object) -> object:
    """The one entry of a batch; anything else as it is."""
    entries = cast("Sequence[object]", value) if isinstance(value, list | tuple) else ()
    return entries[0] if len(entries) == 1 else cast("object", value)
