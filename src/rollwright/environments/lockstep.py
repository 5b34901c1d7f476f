"""Agents of several kinds in one environment, in lock-step: the same task and seed, and a turn each at a time.

                 ┌── the policy's own copy ──► the engine draws its turn
    task, seed ──┼── a copy for a seat    ──► a script plays it
                 └── a copy for a seat    ──► a person, or the stand-in for one, plays it

Each has a copy of the episode, so none changes what another sees; turn n + 1 is opened for anybody when turn n is taken
by everybody whose episode still goes on. Equal turns therefore lead to equal observations, whoever takes them.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from rollwright.environments.call_rules import ACTOR
from rollwright.environments.demonstration import DemonstratedTurn, DemonstrateFn, DemonstratingEnvironment
from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.limits import limits_of
from rollwright.record import (
    Action,
    Environment,
    EnvironmentBrokenError,
    Episode,
    Message,
    NotSnapshottableError,
    StepResult,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import Json

__all__ = ["LOCKSTEP", "AnswerFn", "LockstepEnvironment", "Seat", "scripted_seat"]

LOCKSTEP = "lockstep.json"
"""The artifact: seat to {kind, seed, turns: [{seen, state_hash, said}], end, artifacts: name to digest}."""
AnswerFn = Callable[[Task, int, Sequence[str]], Awaitable[DemonstratedTurn]]
"""(task, seed, everything that was seen, turn by turn) to the next turn."""
_BEHAVIOR = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """Somebody beside the policy."""

    name: str
    kind: Literal["script", "model", "person"]
    """What plays it; `person` also of a stand-in for one."""
    answer: AnswerFn
    revision: str = "1"


def scripted_seat(name: str, turns: DemonstrateFn, *, kind: Literal["script", "model", "person"] = "script") -> Seat:
    """A seat that takes the turns of a `DemonstrateFn`, and says nothing after them."""

    async def answer(task: Task, seed: int, seen: Sequence[str]) -> DemonstratedTurn:
        planned = turns(task, seed)
        return planned[len(seen) - 1] if len(seen) <= len(planned) else DemonstratedTurn(text="")

    return Seat(name=name, kind=kind, answer=answer)


class LockstepEnvironment:
    """An environment of one actor, with others that play copies of the same episode."""

    def __init__(self, environment: Environment, seats: Sequence[Seat]) -> None:
        """Give out the seats.

        Raises:
            EnvironmentSetupError: for an environment of several actors, or seats of one name.
        """
        names = [ACTOR, *(seat.name for seat in seats)]
        if set(environment.actors) != {ACTOR} or len(set(names)) != len(names):
            raise EnvironmentSetupError(
                f"actors {sorted(environment.actors)} and seats {names[1:]}: lock-step is of an environment with the "
                f"one actor {ACTOR!r}, and seats of other names that differ"
            )
        self._environment = environment
        self._seats = tuple(seats)

    @property
    def name(self) -> str:
        """Of the environment inside."""
        return self._environment.name

    @property
    def revision(self) -> str:
        """A digest of the environment inside and of the seats."""
        seats = [[seat.name, seat.kind, seat.revision] for seat in self._seats]
        return digest([_BEHAVIOR, self._environment.revision, seats])[:16]

    @property
    def actors(self) -> Mapping[str, str]:
        """The policy's; the others are played in here."""
        return MappingProxyType(dict(self._environment.actors))

    @property
    def limits(self) -> Mapping[str, float]:
        """Of the environment inside."""
        return limits_of(self._environment)

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """Of the environment inside.

        Raises:
            EnvironmentSetupError: where it has none.
        """
        if not isinstance(self._environment, DemonstratingEnvironment):
            raise EnvironmentSetupError(
                f"environment {self.name} has no demonstrations; leave the supervised stage out"
            )
        return self._environment.demonstrate(task, seed)

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager["LockstepEpisode"]:
        """Open a copy for everybody."""
        return self._opened(task, seed, snapshot)

    @asynccontextmanager
    async def _opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator["LockstepEpisode"]:
        if snapshot is not None:
            raise EnvironmentBrokenError("the snapshot does not fit: an episode in lock-step has none, it is replayed")
        async with AsyncExitStack() as stack:
            own = _Copy(
                name=ACTOR,
                kind="policy",
                episode=await stack.enter_async_context(self._environment.open(task, seed=seed)),
            )
            others: list[tuple[Seat, _Copy]] = []
            for seat in self._seats:
                episode = await stack.enter_async_context(self._environment.open(task, seed=seed))
                others.append((seat, _Copy(name=seat.name, kind=seat.kind, episode=episode)))
            yield LockstepEpisode(task, seed, own, others)


@dataclass(slots=True, eq=False, kw_only=True)
class _Copy:
    """An episode of somebody's own, and how it went."""

    name: str
    kind: str
    episode: Episode
    seen: list[str] = field(default_factory=list[str])
    hashes: list[str | None] = field(default_factory=list[str | None])
    said: list[str] = field(default_factory=list[str])
    is_over: bool = False
    end: str | None = None

    def take(self, result: StepResult) -> None:
        """Note what a step led to."""
        self.is_over, self.end = result.end is not None or not result.observations, result.end
        for observation in result.observations:
            self.seen.append(_text(observation.messages))
            self.hashes.append(observation.state_hash)

    async def play(self, turn: DemonstratedTurn, number: int) -> None:
        """Take a turn with its calls."""
        calls = [
            await self.episode.call(ToolRequest(call_id=f"{self.name}{n}", tool=call.tool, arguments=call.arguments))
            for n, call in enumerate(turn.calls)
        ]
        self.said.append(_said(turn.text, calls))
        self.take(await self.episode.step(Action(actor=ACTOR, turn=number, text=turn.text, calls=tuple(calls))))

    async def left(self, seed: int) -> dict[str, Json]:
        """How it went."""
        turns: list[Json] = [
            {"seen": seen, "state_hash": state, "said": self.said[n] if n < len(self.said) else None}
            for n, (seen, state) in enumerate(zip(self.seen, self.hashes, strict=True))
        ]
        artifacts: dict[str, Json] = {
            name: digest(data.hex()) for name, data in (await self.episode.artifacts()).items()
        }
        return {"kind": self.kind, "seed": seed, "turns": turns, "end": self.end, "artifacts": artifacts}


class LockstepEpisode:
    """One episode of everybody; see `record.Episode`."""

    def __init__(self, task: Task, seed: int, own: _Copy, others: Sequence[tuple[Seat, _Copy]]) -> None:
        self._task = task
        self._seed = seed
        self._own = own
        self._others = others
        self._turn = 0

    @property
    def tools(self) -> Mapping[str, str]:
        """Of the policy's copy."""
        return self._own.episode.tools

    async def begin(self) -> StepResult:
        """Begin every copy; the policy hears its own."""
        for _, copy in self._others:
            copy.take(await copy.episode.begin())
        begun = await self._own.episode.begin()
        self._own.take(begun)
        return begun

    async def call(self, request: ToolRequest) -> ToolResult:
        """Of the policy's copy."""
        return await self._own.episode.call(request)

    async def step(self, action: Action) -> StepResult:
        """Take the policy's turn, and one of everybody whose episode goes on; nobody gets ahead."""
        for seat, copy in self._others:
            if not copy.is_over:
                await copy.play(await seat.answer(self._task, self._seed, tuple(copy.seen)), self._turn)
        self._turn += 1
        self._own.said.append(_said(action.text, action.calls))
        result = await self._own.episode.step(action)
        self._own.take(result)
        return result

    async def artifacts(self) -> Mapping[str, bytes]:
        """What the policy's copy leaves, and how everybody's went."""
        went = {copy.name: await copy.left(self._seed) for copy in (self._own, *(copy for _, copy in self._others))}
        return {**await self._own.episode.artifacts(), LOCKSTEP: canonical_json(went).encode()}

    async def snapshot(self) -> bytes:
        """An episode in lock-step is replayed, not restored."""
        raise NotSnapshottableError("an episode in lock-step has no snapshot; replay it from its seed and turns")


def _text(messages: Sequence[Message]) -> str:
    return "\n".join(message.text for message in messages)


def _said(text: str, calls: Sequence[ToolResult]) -> str:
    return "\n".join([text, *(f"[{call.status}] {call.text}" for call in calls)]).strip("\n")
