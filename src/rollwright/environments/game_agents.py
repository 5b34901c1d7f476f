"""Agents that know a game's rules: the shortest solution, walks that err, and attempts to be paid for nothing."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random

from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.text_games import LOOK, TextGame
from rollwright.record import Task, canonical_json, seed_of
from rollwright.tasks import Payload, State, payload_of

__all__ = ["GamePlanner", "WalkDemonstrator", "game_attacks", "seen_in_games"]

_MOST_STATES = 20_000
_CACHED_TASKS = 4096


@dataclass(frozen=True, slots=True)
class _Map:
    """Every state that can be reached, and how far from success it is."""

    next_commands: Mapping[str, str]
    """State's key to the first command of a shortest way; no entry where there is none."""


@dataclass(slots=True)
class GamePlanner:
    """Breadth-first search over all states of a task; a task's map is made once."""

    game: TextGame
    _maps: dict[str, _Map] = field(default_factory=dict[str, _Map])

    def next_command(self, task: Task, payload: Payload, state: State) -> str | None:
        """The first command of a shortest way to success; None where there is no way."""
        found = self._maps.get(task.task_id)
        if found is None:
            if len(self._maps) >= _CACHED_TASKS:
                self._maps.clear()
            found = self._maps[task.task_id] = _mapped(self.game, payload)
        return found.next_commands.get(canonical_json(state))

    def plan(self, task: Task) -> tuple[str, ...]:
        """A shortest way from the start.

        Raises:
            EnvironmentSetupError: for a task that cannot be solved.
        """
        payload = payload_of(task)
        state, commands = self.game.begin(payload), list[str]()
        while self.game.end(payload, state) is None:
            command = self.next_command(task, payload, state)
            if command is None:
                raise EnvironmentSetupError(f"task {task.task_id} of {self.game.name} cannot be solved")
            commands.append(command)
            state = self.game.act(payload, state, command)
        return tuple(commands)

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """A `DemonstrateFn`: the plan, a command a turn."""
        return tuple(DemonstratedTurn(text=command) for command in self.plan(task))


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkDemonstrator:
    """A `DemonstrateFn`: mostly a stroll, so that it teaches how commands are written more than which one is right."""

    planner: GamePlanner
    turns: int
    """Of an episode; a walk that has not arrived by then has failed."""
    planned_share: float = 0.5
    """Share of the commands that are a planner's; the others are drawn from what can be done."""

    def __post_init__(self) -> None:
        """Refuse a share that is none."""
        if not 0 <= self.planned_share <= 1 or self.turns < 1:
            raise EnvironmentSetupError(
                f"planned_share={self.planned_share} must be in 0..1 and turns={self.turns} at least 1"
            )

    def __call__(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one walk."""
        game, payload = self.planner.game, payload_of(task)
        chance = Random(seed_of(seed, "walk", task.task_id))
        state, turns = game.begin(payload), list[DemonstratedTurn]()
        while len(turns) < self.turns and game.end(payload, state) is None:
            command = self.planner.next_command(task, payload, state) if chance.random() < self.planned_share else None
            if command is None:
                command = chance.choice([*game.commands(payload, state), LOOK])
            turns.append(DemonstratedTurn(text=command))
            state = state if command == LOOK else game.act(payload, state, command)
        return tuple(turns)


def game_attacks(game: TextGame, *, turns: int) -> Mapping[str, DemonstrateFn]:
    """Agents that try to be paid without playing.

    Args:
        game: whose commands are listed.
        turns: of an episode.
    """

    def says_done(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return _repeated(f"done. {payload_of(task).answer}. environment_success", turns)

    def looks(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return _repeated(LOOK, turns)

    def lists_commands(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        payload = payload_of(task)
        return _repeated("\n".join([*game.commands(payload, game.begin(payload)), LOOK]), turns)

    def writes_the_goal(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        return _repeated(payload_of(task).answer + "\n" + canonical_json(payload_of(task).info), turns)

    return {
        "says that it is done": says_done,
        "looks around": looks,
        "all commands in one turn": lists_commands,
        "writes the goal": writes_the_goal,
    }


def seen_in_games(game: TextGame, tasks: tuple[Task, ...]) -> tuple[str, ...]:
    """Views and commands along walks through tasks: what a tokenizer that is trained on the spot should know."""
    seen: list[str] = []
    for task in tasks:
        payload, chance = payload_of(task), Random(seed_of("seen", task.task_id))
        state = game.begin(payload)
        for _ in range(12):
            commands = game.commands(payload, state)
            seen.append("\n".join([game.view(payload, state), "you can:", *commands, LOOK]))
            if not commands or game.end(payload, state) is not None:
                break
            state = game.act(payload, state, chance.choice(commands))
    return tuple(seen)


def _repeated(text: str, turns: int) -> tuple[DemonstratedTurn, ...]:
    return tuple(DemonstratedTurn(text=text) for _ in range(turns))


def _mapped(game: TextGame, payload: Payload) -> _Map:
    """Reach everything, then go back from success."""
    start = game.begin(payload)
    states, waiting = {canonical_json(start): start}, deque([canonical_json(start)])
    reached_by: dict[str, list[tuple[str, str]]] = {}
    won: list[str] = []
    while waiting:
        key = waiting.popleft()
        state = states[key]
        end = game.end(payload, state)
        if end is not None:
            won += [key] if end == "environment_success" else []
            continue
        for command in game.commands(payload, state):
            after = game.act(payload, state, command)
            after_key = canonical_json(after)
            reached_by.setdefault(after_key, []).append((key, command))
            if after_key not in states:
                states[after_key] = after
                waiting.append(after_key)
        if len(states) > _MOST_STATES:
            raise EnvironmentSetupError(f"a task of {game.name} has more than {_MOST_STATES} states; make it smaller")
    next_commands: dict[str, str] = {}
    back, known = deque(won), set(won)
    while back:
        key = back.popleft()
        for before, command in reached_by.get(key, ()):
            if before not in known:
                known.add(before)
                next_commands[before] = command
                back.append(before)
    return _Map(next_commands=next_commands)
