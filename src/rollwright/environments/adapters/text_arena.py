"""Games of the package `textarena`: made by their id, reset, stepped and closed as they are.

The policy plays one seat; the other seats, where a game has any, are played by a function. A game's text is shown as it
comes; what it merely repeats of an earlier turn is left out, since the context still holds it.
"""

import importlib
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType
from typing import Protocol, cast

from rollwright.environments.adapters.foreign import ForeignCode, brief
from rollwright.environments.adapters.game import Departure, Game, Move
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.tool_threads import ToolThreads
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    NamedValue,
    Task,
    ToolRequest,
    ToolResult,
    seed_of,
)
from rollwright.tasks import payload_of

__all__ = ["OpponentFn", "TextArena", "text_arena"]

OpponentFn = Callable[[str, int], str]
"""(observation, seed) to a move; the seed is another one in every turn of every game."""
_MAX_OTHER_MOVES = 200
_NEEDS_WORDS = (
    "Codenames", "DontSayIt", "Hangman", "LetterAuction", "SpellingBee", "WordChains", "WordLadder", "WordSearch",
    "Wordle",
)  # fmt: skip
_NEEDS_MODEL = ("Debate", "GuessWho", "ScenarioPlanning", "TwentyQuestions")


class _ArenaGame(Protocol):
    """What is used of `textarena.Env`."""

    def reset(self, num_players: int, seed: int | None = None) -> object: ...
    def get_observation(self) -> tuple[int, object]: ...
    def step(self, action: str) -> tuple[bool, object]: ...
    def close(self) -> tuple[Mapping[int, float] | None, Mapping[int, Mapping[str, object]]]: ...


class _Arena(Protocol):
    def make(self, env_id: str) -> _ArenaGame: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArena:
    """One kind of game; `open` is a `StartFn`. A task's `info.seed` decides the game's instance."""

    game: str
    num_players: int = 1
    seat: int = 0
    opponent: OpponentFn | None = None
    threads: ToolThreads
    package: _Arena
    spoken: tuple[str, ...] = ()
    """What one game began with."""

    def open(self, task: Task, seed: int) -> AbstractAsyncContextManager[Game]:
        """Make and reset a game."""
        return self._opened(task, seed)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int) -> AsyncGenerator[Game]:
        asked = payload_of(task).info.get("seed")
        if not isinstance(asked, int):
            raise EnvironmentBrokenError(f"task {task.task_id} has no `info.seed`; it is no task of this world")
        code = ForeignCode(self.threads, self.game, asked)
        table = _Table(arena=self, seed=asked, chance=seed_of(seed, "opponent", task.task_id))
        await code.run(table.lay)
        yield _TextArenaGame(table, code)


class _Table:
    """A game with all its seats; everything here runs in the game's thread."""

    def __init__(self, *, arena: TextArena, seed: int, chance: int) -> None:
        self._arena = arena
        self._seed = seed
        self._chance = chance
        self._shown = ""
        self._turns = 0
        self._game = arena.package.make(arena.game)

    def lay(self) -> None:
        """Reset."""
        self._game.reset(num_players=self._arena.num_players, seed=self._seed)

    def move(self, text: str | None) -> Move:
        """Take our move (none before the first), let the others play, and come back at our turn or at the end."""
        is_over = text is not None and self._game.step(text)[0]
        for _ in range(_MAX_OTHER_MOVES):
            if is_over:
                return self._end()
            player, said = self._game.get_observation()
            if player == self._arena.seat:
                return Move(messages=(Message(role="user", text=self._new_part(str(said), text)),))
            is_over = self._game.step(self._other_move(str(said)))[0]
        raise EnvironmentBrokenError(f"{self._arena.game}: {_MAX_OTHER_MOVES} moves of the others, and no turn of ours")

    def _other_move(self, said: str) -> str:
        if self._arena.opponent is None:
            raise EnvironmentBrokenError(f"{self._arena.game} gives a turn to another seat, and nobody sits there")
        self._turns += 1
        return self._arena.opponent(said, seed_of(self._chance, self._turns))

    def _new_part(self, said: str, ours: str | None) -> str:
        part = said.removeprefix(self._shown) if self._shown else said
        self._shown = said
        if ours is not None:
            part = part.removeprefix(f"\n[Player {self._arena.seat}] {ours}")
        return part.strip() or "(nothing new)"

    def _end(self) -> Move:
        rewards, facts = self._game.close()
        known = facts.get(self._arena.seat, {})
        components = tuple(
            NamedValue(name=name, value=float(value))
            for name in ("invalid_move", "turn_count")
            if isinstance(value := known.get(name), int | float)
        )
        reward = float((rewards or {}).get(self._arena.seat, 0.0))
        return Move(reward=reward, components=components, is_over=True)


class _TextArenaGame:
    def __init__(self, table: _Table, code: ForeignCode) -> None:
        self._table = table
        self._code = code

    @property
    def tools(self) -> Mapping[str, str]:
        return MappingProxyType({})

    async def begin(self) -> Move:
        return await self._code.run(lambda: self._table.move(None))

    async def call(self, request: ToolRequest) -> ToolResult:
        return ToolResult(call_id=request.call_id, status="invalid_call", text="error: this game has no tools")

    async def act(self, action: Action) -> Move:
        if action.calls:
            return Move()
        return await self._code.run(lambda: self._table.move(action.text))

    async def leave(self) -> Departure:
        return Departure()


def text_arena(game: str, *, num_players: int = 1, seat: int = 0, opponent: OpponentFn | None = None) -> TextArena:
    """A kind of game, tried once.

    Args:
        game: id of the package's registry, such as `TowerOfHanoi-v0`.
        num_players: of a game.
        seat: ours; 0 is the first.
        opponent: plays the other seats.

    Raises:
        EnvironmentSetupError: for a game that cannot be had here, with the reason.
    """
    try:
        package = cast("_Arena", importlib.import_module("textarena"))
        version("textarena")
    except (ImportError, PackageNotFoundError) as error:
        raise EnvironmentSetupError("textarena is not installed; install rollwright[textarena]") from error
    if not 0 <= seat < num_players or (num_players > 1) == (opponent is None):
        raise EnvironmentSetupError(
            f"num_players={num_players}, seat={seat}: the seat must be one of them; a game of several players needs "
            "an opponent, a game of one has none"
        )
    _refuse(game)
    arena = TextArena(
        game=game, num_players=num_players, seat=seat, opponent=opponent, threads=ToolThreads(), package=package
    )
    try:
        table = _Table(arena=arena, seed=0, chance=0)
        table.lay()
        begun = table.move(None)
    except (Exception, SyntaxError) as error:  # noqa: BLE001 - someone else's code may raise anything
        raise EnvironmentSetupError(f"textarena's {game!r} cannot be played here: {brief(error)}") from error
    return replace(arena, spoken=tuple(message.text for message in begun.messages))


def _refuse(game: str) -> None:
    """Say no before the package would go to the network."""
    kind = game.partition("-v")[0]
    if kind in _NEEDS_MODEL:
        raise EnvironmentSetupError(f"textarena's {game!r} asks a model on the network as part of its rules: refused")
    if kind in _NEEDS_WORDS and not _has_words():
        raise EnvironmentSetupError(
            f"textarena's {game!r} downloads word lists when it is made, and they are not on this machine; put them "
            "there first (python -m nltk.downloader words averaged_perceptron_tagger_eng), or choose another game"
        )


def _has_words() -> bool:
    nltk = importlib.import_module("nltk")
    try:
        nltk.data.find("corpora/words")
    except LookupError:
        return False
    return True
