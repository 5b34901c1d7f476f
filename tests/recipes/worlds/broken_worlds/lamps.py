"""A sound world with a state: a row of lamps that is to be brought to a pattern. Nothing is broken: the control.

Pressing a lamp switches it and its right neighbor. How the lamps stand at first comes from task and seed; equal lamps
are met on many paths. Its broken kin in this folder override one thing each.
"""

import json
import random
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds import World
from rollwright.record import (
    Action,
    Environment,
    EnvironmentBrokenError,
    Message,
    Observation,
    StepResult,
    Submission,
    Task,
    ToolRequest,
    ToolResult,
    canonical_json,
    digest,
)
from rollwright.tasks import Payload, SplitSizes, Stratum, TaskError, fill_splits, payload_of, read_json, stratum_of
from rollwright.verifiers import FunctionVerifier, GoldError, Grade, Part

NUM_LAMPS = 7
MAX_CALLS = 12
MAX_TURNS = 10
RESULT_CHARACTERS = 120
ACTOR = "agent"


def schema(name: str, description: str, properties: Mapping[str, object]) -> str:
    parameters = {
        "type": "object",
        "properties": dict(properties),
        "required": sorted(properties),
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters}
    return json.dumps({"type": "function", "function": function}, sort_keys=True)


LAMP = {"type": "integer", "description": "its place, 0 is the first", "minimum": 0, "maximum": NUM_LAMPS - 1}
TOOLS = {
    "press": schema("press", "Switch a lamp and its right neighbor.", {"lamp": LAMP}),
    "look": schema("look", "Say how the lamps stand.", {}),
}


@dataclass
class Lamps:
    """All that an episode remembers."""

    task_id: str
    seed: int
    lit: str
    calls: int = 0
    turns: int = 0
    has_ended: bool = False

    def press(self, lamp: int) -> None:
        self.lit = "".join(
            str(1 - int(one)) if place in (lamp, lamp + 1) else one for place, one in enumerate(self.lit)
        )


def target_of(task: Task) -> str:
    target = payload_of(task).info.get("target")
    if not isinstance(target, str) or len(target) != NUM_LAMPS or set(target) - {"0", "1"}:
        raise TaskError(f"task {task.task_id} has no target of {NUM_LAMPS} lamps")
    return target


def start_of(task: Task, seed: int) -> str:
    """Never the target, so that doing nothing solves nothing."""
    drawn = random.Random(f"{task.task_id}:{seed}")
    while True:
        start = "".join(drawn.choice("01") for _ in range(NUM_LAMPS))
        if start != target_of(task):
            return start


class LampsEpisode:
    def __init__(self, state: Lamps, target: str) -> None:
        self.state = state
        self.target = target

    @property
    def tools(self) -> Mapping[str, str]:
        return TOOLS

    async def begin(self) -> StepResult:
        return self.open_turn(self.opening() if self.state.turns == 0 else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        self.state.calls += 1
        status, text = self.answer(request)
        return ToolResult(call_id=request.call_id, status=status, text=text)

    async def step(self, action: Action) -> StepResult:
        if self.state.has_ended:
            raise EnvironmentBrokenError("a turn was taken after the episode had ended")
        self.state.turns += 1
        if "done" in action.text and not action.calls and action.parse_error is None:
            self.state.has_ended = True
            is_solved = self.state.lit == self.target
            return StepResult(observations=(), end="environment_success" if is_solved else "environment_failure")
        if self.state.turns >= MAX_TURNS:
            self.state.has_ended = True
            return StepResult(observations=(), end="environment_failure")
        if action.parse_error is not None:
            return self.open_turn((Message(role="user", text="error: the call could not be read"),))
        return self.open_turn(() if action.calls else (Message(role="user", text="Press a lamp, or say done."),))

    async def artifacts(self) -> Mapping[str, bytes]:
        return {"lamps.json": canonical_json({"lit": self.state.lit}).encode()}

    async def snapshot(self) -> bytes:
        return canonical_json(asdict(self.state)).encode()

    def opening(self) -> tuple[Message, ...]:
        text = f"The lamps are {self.state.lit}. Bring them to {self.target}, then say done."
        return (Message(role="user", text=text),)

    def open_turn(self, messages: tuple[Message, ...]) -> StepResult:
        return StepResult(observations=(Observation(actor=ACTOR, messages=messages, state_hash=self.state_hash()),))

    def state_hash(self) -> str | None:
        return digest([self.state.lit, self.target])

    def answer(self, request: ToolRequest) -> tuple[str, str]:
        """Status and text."""
        if self.state.calls > MAX_CALLS:
            return "limit", f"error: no calls left, {MAX_CALLS} are allowed"
        if request.tool not in TOOLS:
            return "invalid_call", f"error: no such tool; there are {', '.join(sorted(TOOLS))}"
        arguments = self.read(request.arguments)
        if request.tool == "look":
            if arguments != {}:
                return "invalid_call", "error: look takes no arguments"
            return "ok", self.look()
        lamp = arguments.get("lamp") if isinstance(arguments, dict) and len(arguments) == 1 else None
        if type(lamp) is not int or not 0 <= lamp < NUM_LAMPS:
            return "invalid_call", f"error: press takes one lamp from 0 to {NUM_LAMPS - 1}"
        self.state.press(lamp)
        return "ok", self.look()

    def read(self, arguments: str) -> Any:
        try:
            return read_json(arguments)
        except (ValueError, RecursionError):
            return None

    def look(self) -> str:
        return f"the lamps are {self.state.lit}"


class LampsEnvironment:
    episode: type[LampsEpisode] = LampsEpisode

    @property
    def name(self) -> str:
        return "lamps"

    @property
    def revision(self) -> str:
        return "1"

    @property
    def actors(self) -> Mapping[str, str]:
        return {ACTOR: "policy"}

    @property
    def limits(self) -> Mapping[str, float]:
        return {"calls": MAX_CALLS, "result_characters": RESULT_CHARACTERS}

    def open(
        self, task: Task, *, seed: int, snapshot: bytes | None = None
    ) -> AbstractAsyncContextManager[LampsEpisode]:
        return self.opened(task, seed, snapshot)

    @asynccontextmanager
    async def opened(self, task: Task, seed: int, snapshot: bytes | None) -> AsyncGenerator[LampsEpisode]:
        yield self.made(task, seed, snapshot)

    def made(self, task: Task, seed: int, snapshot: bytes | None) -> LampsEpisode:
        try:
            target = target_of(task)
            state = self.fresh(task, seed) if snapshot is None else self.restored(snapshot, task, seed)
        except (ValueError, TypeError, KeyError) as error:
            raise EnvironmentBrokenError(f"task {task.task_id} cannot be opened: {error}") from error
        return self.episode(state, target)

    def fresh(self, task: Task, seed: int) -> Lamps:
        return Lamps(task_id=task.task_id, seed=seed, lit=start_of(task, seed))

    def restored(self, snapshot: bytes, task: Task, seed: int) -> Lamps:
        state = Lamps(**json.loads(snapshot))
        if (state.task_id, state.seed) != (task.task_id, seed):
            raise ValueError(f"the snapshot is of task {state.task_id} and seed {state.seed}")
        return state


def payloads(seed: int) -> Iterator[Payload]:
    """All patterns, in an order that the seed decides."""
    patterns = [f"{number:0{NUM_LAMPS}b}" for number in range(2**NUM_LAMPS)]
    random.Random(seed).shuffle(patterns)
    for target in patterns:
        asked = Message(role="user", text=f"Bring the lamps to {target}, then say done.")
        yield Payload(messages=(asked,), answer=target, info={"target": target})


def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
    return (stratum_of(fill_splits(payloads(seed), sizes, name="lamps", revision="1"), 1.0),)


def grade(submission: Submission) -> Grade:
    """1 where the lamps are as they should be."""
    try:
        target = target_of(submission.task)
    except ValueError as error:
        raise GoldError(str(error)) from error
    left = json.loads(submission.artifacts["lamps.json"])["lit"]
    return Grade(value=float(left == target), evidence=f"the lamps are {left}, the target is {target}")


def pressed(lamp: int) -> ToolRequest:
    return ToolRequest(call_id="", tool="press", arguments=json.dumps({"lamp": lamp}))


def reference(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """From the left: a lamp that is wrong is pressed. Two calls a turn."""
    lamps, target = Lamps(task_id=task.task_id, seed=seed, lit=start_of(task, seed)), target_of(task)
    calls: list[ToolRequest] = []
    for place in range(NUM_LAMPS):
        if lamps.lit[place] != target[place]:
            lamps.press(place)
            calls.append(pressed(place))
    turns = [DemonstratedTurn(text="", calls=tuple(calls[at : at + 2])) for at in range(0, len(calls), 2)]
    return (*turns, DemonstratedTurn(text="done"))


def claim(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """Says that it is done."""
    return (DemonstratedTurn(text=f"The lamps are {target_of(task)}. done"),)


def load() -> World:
    return World(
        environment=LampsEnvironment(),
        tasks=tasks,
        parts=graded(FunctionVerifier(name="lamps", revision="1", grade=grade)),
        reference=reference,
        attacks={"says so": claim},
        spoken=("the lamps are 0 1",),
    )


def graded(verifier: Any) -> tuple[Part, ...]:
    return (Part(verifier=verifier),)


def with_environment(environment: Environment) -> World:
    """The sound world but for its environment."""
    return replace(load(), environment=environment)


def with_episode(kind: type[LampsEpisode]) -> World:
    """The sound world but for the class of its episodes."""

    class Kind(LampsEnvironment):
        episode = kind

    return with_environment(Kind())
