"""Plays given turns in an episode and writes down all that it says, fact by fact."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rollwright.environments import DemonstratedTurn, DemonstrateFn
from rollwright.recipes.worlds.checking.outcomes import CheckFailedError, shown
from rollwright.recipes.worlds.checking.reading import (
    read_artifacts,
    read_result,
    read_step,
    refuse_early_reward,
)
from rollwright.recipes.worlds.checking.stage import Stage, describe
from rollwright.record import (
    Action,
    Environment,
    Episode,
    Observation,
    Passage,
    StepResult,
    Submission,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.rendering import HermesGrammar

__all__ = [
    "SEED",
    "Fact",
    "Move",
    "Pace",
    "Script",
    "Transcript",
    "first_difference",
    "play",
    "take_artifacts",
    "turns_of",
]

SEED = 7
"""Of every episode of the checks."""
MOST_TURNS = 40
"""Turns of a play whose agent would go on for ever."""
LONGEST_FACT = 2000
_SILENT = DemonstratedTurn(text="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """Who plays: turns, and whether silent ones follow until the episode ends."""

    name: str
    turns: tuple[DemonstratedTurn, ...]
    goes_on: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that an episode said."""

    what: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A turn taken in a state, and what came of it."""

    before: str
    """The state's hash."""
    action: str
    came: str
    after: str | None
    """The next state's hash; None where the episode ended."""
    turn: int


@dataclass(slots=True, kw_only=True)
class Transcript:
    """All that came of one play."""

    task: Task
    script: str
    facts: list[Fact] = field(default_factory=list[Fact])
    moves: list[Move] = field(default_factory=list[Move])
    passages: list[Passage] = field(default_factory=list[Passage])
    hashes: list[str | None] = field(default_factory=list[str | None])
    statuses: list[str] = field(default_factory=list[str])
    artifacts: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    rewards: list[tuple[str, float]] = field(default_factory=list[tuple[str, float]])
    terminal_reason: str = "turn_limit"
    num_turns: int = 0
    begun_at: int = 0
    """Facts that the beginning gave."""

    @property
    def where(self) -> str:
        """As a sentence names it."""
        return f"task {self.task.task_id}, {self.script}"

    def submission(self) -> Submission:
        """What verifiers are shown."""
        return Submission(
            trajectory_id=f"t{digest([self.task.task_id, self.script])[:6]}-00-0",
            task=self.task,
            terminal_reason=self.terminal_reason,
            passages=tuple(self.passages),
            artifacts=self.artifacts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast a play goes, and who looks on."""

    pause: Callable[[], Awaitable[None]] = lambda: asyncio.sleep(0)
    """Waited for between any two questions."""
    look: Callable[[Episode, Transcript], Awaitable[None]] | None = None
    """Called where a turn is open: after the beginning and after each turn."""
    look_back: Callable[[Episode, Transcript], Awaitable[None]] | None = None
    """Called when the artifacts were taken, before the episode is left."""


def turns_of(agent: DemonstrateFn, task: Task, name: str) -> tuple[DemonstratedTurn, ...]:
    """The turns of an agent.

    Raises:
        CheckFailedError: where it has none.
    """
    try:
        turns = tuple(agent(task, SEED))
    except Exception as error:
        raise CheckFailedError(
            f"task {task.task_id}: {name} raised {shown(describe(error))}; it must give the turns of one episode"
        ) from error
    for turn in turns:
        if not isinstance(turn, DemonstratedTurn):  # pyright: ignore[reportUnnecessaryIsInstance] - from outside
            raise CheckFailedError(
                f"task {task.task_id}: {name} gave a {type(turn).__name__} where a DemonstratedTurn is due"
            )
    return turns


async def play(
    stage: Stage, environment: Environment, task: Task, script: Script, pace: Pace | None = None
) -> Transcript:
    """Play a script in a fresh episode.

    Raises:
        CheckFailedError: where the environment raises, hangs, or answers with something that is no answer.
    """
    pace = pace or Pace()
    transcript = Transcript(task=task, script=script.name)
    async with stage.opened(environment, task, SEED, where=transcript.where) as episode:
        await go_on(stage, episode, script, transcript, pace)
    return transcript


async def go_on(stage: Stage, episode: Episode, script: Script, transcript: Transcript, pace: Pace) -> None:
    """Begin an opened episode, play it to its end, and take its artifacts."""
    player = _Player(stage, episode, transcript, pace)
    await player.play(script)


async def take_artifacts(stage: Stage, episode: Episode, where: str) -> Mapping[str, bytes]:
    """What an episode leaves.

    Raises:
        CheckFailedError: where it raises, hangs, or leaves something that is no artifact.
    """
    return read_artifacts(await stage.ask(where, episode.artifacts), where)


def first_difference(one: Sequence[Fact], other: Sequence[Fact]) -> str | None:
    """Where two plays part, in words; None where they are equal."""
    for a, b in zip(one, other, strict=False):
        if a != b:
            what = a.what if a.what == b.what else f"{a.what} or {b.what}"
            return f"{what} was {shown(a.value)} and then {shown(b.value)}"
    if len(one) != len(other):
        longer = one if len(one) > len(other) else other
        return f"{longer[min(len(one), len(other))].what} came in one of them only"
    return None


class _Player:
    def __init__(self, stage: Stage, episode: Episode, transcript: Transcript, pace: Pace) -> None:
        self._stage = stage
        self._episode = episode
        self._t = transcript
        self._pace = pace
        self._num_calls = len(transcript.statuses)
        self._tools: Mapping[str, str] = {}

    async def play(self, script: Script) -> None:
        """Begin, take the turns, end."""
        self._tools = dict(self._episode.tools)
        self._note("the tools", canonical_json(self._tools))
        begun = await self._stage.ask(f"begin of {self._t.where}", self._episode.begin)
        step = read_step(begun, f"begin of {self._t.where}")
        refuse_early_reward(step, f"begin of {self._t.where}")
        self._hear(step, "the first observation")
        self._t.begun_at = len(self._t.facts)
        waiting = list(step.observations)
        turns = list(script.turns)
        end: str | None = step.end
        while waiting and end is None and self._t.num_turns < MOST_TURNS:
            if self._pace.look is not None:
                await self._pace.look(self._episode, self._t)
            if not turns and not script.goes_on:
                break
            observation = waiting.pop(0)
            step = await self._turn(observation, turns.pop(0) if turns else _SILENT)
            waiting += step.observations
            end = step.end
        if end is not None or not waiting:
            self._t.terminal_reason = end or "model_end"
        self._t.artifacts = await take_artifacts(self._stage, self._episode, f"artifacts of {self._t.where}")
        for name, content in sorted(self._t.artifacts.items()):
            self._note(f"the artifact {name}", content.decode(errors="backslashreplace"))
        self._note("the end", self._t.terminal_reason)
        if self._pace.look_back is not None:
            await self._pace.look_back(self._episode, self._t)

    async def _turn(self, observation: Observation, turn: DemonstratedTurn) -> StepResult:
        number, actor = self._t.num_turns, observation.actor
        self._t.num_turns += 1
        shown_text = turn.text + HermesGrammar().write([(call.tool, call.arguments) for call in turn.calls])
        self._t.passages.append(Passage(actor=actor, kind="policy", text=shown_text))
        results = [await self._call(call, number) for call in turn.calls]
        action = Action(actor=actor, turn=number, text=turn.text, calls=tuple(results))
        where = f"step of turn {number + 1} of {self._t.where}"
        await self._pace.pause()
        step = read_step(await self._stage.ask(where, lambda: self._episode.step(action)), where)
        for result in results:
            self._t.passages.append(Passage(actor=actor, kind="tool", text=result.text))
        self._hear(step, f"the observation after turn {number + 1}")
        self._move(observation, turn, results, step)
        self._refuse_other_tools(number)
        return step

    def _refuse_other_tools(self, turn: int) -> None:
        """The prompt has shown the tools already."""
        changed = sorted({name for name, _ in set(self._episode.tools.items()) ^ set(self._tools.items())})
        if changed:
            raise CheckFailedError(
                f"{self._t.where}: after turn {turn + 1} its tools are not those of its beginning "
                f"({', '.join(changed)} differ); the tools of an episode never change"
            )

    async def _call(self, call: ToolRequest, turn: int) -> ToolResult:
        request = ToolRequest(call_id=f"e/c{self._num_calls}", tool=call.tool, arguments=call.arguments)
        self._num_calls += 1
        where = f"call {self._num_calls} ({call.tool}) of {self._t.where}"
        await self._pace.pause()
        result = read_result(await self._stage.ask(where, lambda: self._episode.call(request)), request, where)
        self._t.statuses.append(result.status)
        self._note(
            f"the result of call {self._num_calls} ({call.tool}), in turn {turn + 1},",
            f"{result.status}: {result.text}",
        )
        return result

    def _hear(self, step: StepResult, what: str) -> None:
        for observation in step.observations:
            said = [[message.role, message.text] for message in observation.messages]
            self._note(f"{what}", canonical_json([observation.actor, said, observation.is_fresh_context]))
            self._note(f"the state_hash of {what}", str(observation.state_hash))
            self._t.hashes.append(observation.state_hash)
            for message in observation.messages:
                is_tool = message.role == "tool"
                kind = "tool" if is_tool else "user" if message.role in ("user", "system") else "environment"
                self._t.passages.append(Passage(actor=observation.actor, kind=kind, text=message.text))
        for reward in step.rewards:
            self._t.rewards.append((reward.name, reward.value))
            self._note(f"the reward {reward.name} with {what}", repr(reward.value))
        if not step.observations:
            self._note(what.replace("the observation", "the end"), str(step.end))

    def _move(
        self, observation: Observation, turn: DemonstratedTurn, results: Sequence[ToolResult], step: StepResult
    ) -> None:
        if observation.state_hash is None:
            return
        action = canonical_json([turn.text, [[call.tool, call.arguments] for call in turn.calls]])
        said = [[m.role, m.text] for o in step.observations for m in o.messages]
        came = canonical_json([[[r.status, r.text] for r in results], said, step.end])
        after = step.observations[0].state_hash if step.observations else None
        self._t.moves.append(
            Move(before=observation.state_hash, action=action, came=came, after=after, turn=self._t.num_turns)
        )

    def _note(self, what: str, value: str) -> None:
        kept = value if len(value) <= LONGEST_FACT else f"{value[:LONGEST_FACT]}… {digest(value)}"
        self._t.facts.append(Fact(what=what, value=kept))
