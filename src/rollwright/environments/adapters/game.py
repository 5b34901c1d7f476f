"""What every adapter turns someone else's environment into: a game, played by one actor of ours.

Our driver samples the tokens and keeps them; the game sees the text of a finished turn and answers with messages, a
reward, and whether it is over. What it paid and said at its end is left as `outcome.json`, for `reported_verifier`.

    driver ──action──► AdaptedEpisode ──text, call──► Game (someone else's rules) ──Move──► messages, reward, end
"""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NoReturn, Protocol

from rollwright.environments.call_rules import ACTOR
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, demonstrated
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.tools import clean_text, cut_text
from rollwright.record import (
    Action,
    EnvironmentBrokenError,
    Message,
    NamedValue,
    NotSnapshottableError,
    Observation,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import Json

__all__ = ["OUTCOME", "AdaptedEnvironment", "AdaptedEpisode", "Departure", "Game", "GameLimits", "Move", "StartFn"]

OUTCOME = "outcome.json"
_BEHAVIOR = 1
"""Of this module's own rules; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What a game answers; nothing at all opens the next turn."""

    messages: tuple[Message, ...] = ()
    reward: float | None = None
    """Paid for the turn just taken; the rewards of an episode are added up."""
    components: tuple[NamedValue, ...] = ()
    """Further numbers; of equal names the last stands."""
    is_over: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    """What a game leaves."""

    artifacts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """For verifiers, beside `outcome.json`."""
    reward: float | None = None
    """Paid at the end, on top of what the turns were paid."""
    components: tuple[NamedValue, ...] = ()


class Game(Protocol):
    """One game, in the hands of one episode. What it raises breaks the episode: it is no doing of the policy."""

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        ...

    async def begin(self) -> Move:
        """The first messages."""
        ...

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call."""
        ...

    async def act(self, action: Action) -> Move:
        """Take a finished turn that parsed."""
        ...

    async def leave(self) -> Departure:
        """What is left at the end, of a game that is over and of one that a limit cut off."""
        ...


StartFn = Callable[[Task, int], AbstractAsyncContextManager[Game]]
"""(task, reset seed) to a game of its own; leaving the context ends all that it started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameLimits:
    """What a game may take and say."""

    message_characters: int = 4000
    """Longer messages and results are cut, with a mark."""
    call_timeout_s: float = 30.0
    """Of a beginning, a turn or a call; a game that is not back by then is broken."""
    success_threshold: float = 1.0
    """A game that is over with at least this reward in all ends in success."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if self.message_characters < 16 or self.call_timeout_s <= 0:
            raise EnvironmentSetupError(f"{self}: message_characters must be at least 16, call_timeout_s above 0")


class AdaptedEnvironment:
    """An environment made of someone else's."""

    def __init__(
        self,
        *,
        name: str,
        settings: Mapping[str, str | float],
        start: StartFn,
        limits: GameLimits | None = None,
        demonstrate: DemonstrateFn | None = None,
    ) -> None:
        """Store the parts.

        Args:
            name: in the tables.
            settings: what decides how it behaves (package and version, entry, arguments), for the revision.
            start: opens a game.
            limits: of an episode.
            demonstrate: for a warm start, if there is anything to show.
        """
        self._name = name
        self._start = start
        self._limits = limits or GameLimits()
        self._demonstrate = demonstrate
        decided = [self._limits.message_characters, self._limits.success_threshold]
        self._revision = digest([_BEHAVIOR, name, dict(settings), decided])[:16]

    @property
    def name(self) -> str:
        """Its name in the tables."""
        return self._name

    @property
    def revision(self) -> str:
        """A digest of the package, its version, the entry and its arguments."""
        return self._revision

    @property
    def actors(self) -> Mapping[str, str]:
        """One actor, played by the policy."""
        return MappingProxyType({ACTOR: "policy"})

    @property
    def limits(self) -> Mapping[str, float]:
        """How much the game may say at once, and how long it may take."""
        limits = self._limits
        return MappingProxyType(
            {"message_characters": limits.message_characters, "call_timeout_s": limits.call_timeout_s}
        )

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration.

        Raises:
            EnvironmentSetupError: where there is nothing to demonstrate with.
        """
        return demonstrated(self._name, self._demonstrate, task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["AdaptedEpisode"]:
        """Open a single-use episode."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["AdaptedEpisode"]:
        if snapshot is not None:
            raise NotSnapshottableError(f"environment {self._name} restarts from its seed")
        opened = self._start(task, seed)
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                game = await opened.__aenter__()
        except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
            _break(self._name, "does not open", error)
        try:
            yield AdaptedEpisode(name=self._name, game=game, limits=self._limits, opening=[task.task_id, seed])
        except BaseException as error:
            await opened.__aexit__(type(error), error, error.__traceback__)
            raise
        await opened.__aexit__(None, None, None)


class AdaptedEpisode:
    """One episode; see `record.Episode`."""

    def __init__(self, *, name: str, game: Game, limits: GameLimits, opening: Sequence[str | int]) -> None:
        self._name = name
        self._game = game
        self._limits = limits
        self._heard = digest(list(opening))
        self._one_call = asyncio.Lock()
        self._turns = 0
        self._is_over = False
        self._rewards: list[float] = []
        self._components: dict[str, float] = {}

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema."""
        return self._game.tools

    async def begin(self) -> StepResult:
        """The game's first messages."""
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                move = await self._game.begin()
        except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
            _break(self._name, "does not begin", error)
        if move.is_over or not move.messages:
            raise EnvironmentBrokenError(f"{self._name} begins with nothing to answer")
        return self._moved(move)

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one call of the game's own tools; several are run in the order in which they were asked."""
        async with self._one_call:
            try:
                async with asyncio.timeout(self._limits.call_timeout_s):
                    result = await self._game.call(request)
            except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
                _break(self._name, f"fails at tool {request.tool[:40]}", error)
            shown = self._shown(result.text)
            self._hear(["call", request.tool, request.arguments, result.status, shown])
        return ToolResult(call_id=request.call_id, status=result.status, text=shown, cost=result.cost)

    async def step(self, action: Action) -> StepResult:
        """Hand the turn to the game; one that does not parse stays with us, and is answered with what was wrong."""
        if self._is_over:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self._turns += 1
        self._hear(["turn", action.text, action.parse_error])
        if action.parse_error is not None:
            return self._moved(Move(messages=(Message(role="user", text=f"error: {action.parse_error}"),)))
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                move = await self._game.act(action)
        except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
            _break(self._name, "does not take a turn", error)
        return self._moved(move)

    async def artifacts(self) -> Mapping[str, bytes]:
        """`outcome.json`, and what the game leaves."""
        try:
            async with asyncio.timeout(self._limits.call_timeout_s):
                left = await self._game.leave()
        except Exception as error:  # noqa: BLE001 - someone else's code may raise anything
            _break(self._name, "does not end", error)
        self._pay(left.reward, left.components)
        outcome: Json = {
            "reward": math.fsum(self._rewards),
            "components": self._components,
            "is_over": self._is_over,
            "turns": self._turns,
        }
        return {**left.artifacts, OUTCOME: canonical_json(outcome).encode()}

    async def snapshot(self) -> bytes:
        """None: what someone else's environment remembers cannot be seen."""
        raise NotSnapshottableError(f"environment {self._name} restarts from its seed")

    def _moved(self, move: Move) -> StepResult:
        rewards = self._pay(move.reward, move.components)
        self._is_over = move.is_over
        if move.is_over and not self._rewards:
            return StepResult(observations=())  # Nothing was paid: a verifier decides what it was.
        if move.is_over:
            has_won = math.fsum(self._rewards) >= self._limits.success_threshold
            end = "environment_success" if has_won else "environment_failure"
            return StepResult(observations=(), rewards=rewards, end=end)
        messages = tuple(Message(role=m.role, text=self._shown(m.text)) for m in move.messages)
        self._hear([[m.role, m.text] for m in messages])
        return StepResult(
            observations=(Observation(actor=ACTOR, messages=messages, state_hash=self._heard),), rewards=rewards
        )

    def _pay(self, reward: float | None, components: Sequence[NamedValue]) -> tuple[NamedValue, ...]:
        self._components.update({c.name: c.value for c in components if math.isfinite(c.value)})
        if reward is None:
            return ()
        if not math.isfinite(reward):
            raise EnvironmentBrokenError(f"{self._name} pays {reward}, which is no finite number")
        self._rewards.append(float(reward))
        return (NamedValue(name="reward", value=float(reward)),)

    def _shown(self, text: str) -> str:
        return cut_text(clean_text(text), self._limits.message_characters)

    def _hear(self, said: Json) -> None:
        """The state that can be seen is all that was said: equal histories have equal hashes."""
        self._heard = digest([self._heard, said])


def _break(name: str, what: str, error: Exception) -> NoReturn:
    """Raise what the driver retries."""
    if isinstance(error, EnvironmentBrokenError | NotSnapshottableError):
        raise error
    said = " ".join(str(error).split()) or "no answer in time"
    raise EnvironmentBrokenError(f"{name} {what}: {type(error).__name__}: {said[:400]}") from error
