"""A small world that keeps the contract, and a way of breaking one promise of it at a time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from rollwright.environments import DemonstratedTurn
from rollwright.recipes.worlds.world import World
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
from rollwright.tasks import Payload, SplitSizes, fill_splits, payload_of, read_json, stratum_of
from rollwright.verifiers import FunctionVerifier, Grade, Part

__all__ = ["SCHEMA", "Add", "Adding", "world"]

SCHEMA = canonical_json(
    {
        "type": "function",
        "function": {
            "name": "add",
            "description": "Add to the sum.",
            "parameters": {"type": "object", "properties": {"by": {"type": "integer"}}, "required": ["by"]},
        },
    }
)


class Add:
    """An episode: calls add to a sum; a turn without a call ends it."""

    def __init__(self, environment: "Adding", task: Task, seed: int, sum_so_far: int) -> None:
        self.environment = environment
        self.task = task
        self.seed = seed
        self.sum = sum_so_far
        self.has_ended = False

    @property
    def tools(self) -> Mapping[str, str]:
        return self.environment.tools

    async def begin(self) -> StepResult:
        return self.turn((*payload_of(self.task).messages,) if self.sum == 0 else ())

    async def call(self, request: ToolRequest) -> ToolResult:
        status, text = "ok", ""
        try:
            read = read_json(request.arguments)
            by = read.get("by") if isinstance(read, Mapping) else None
        except (ValueError, RecursionError):
            by = None
        if request.tool != "add" or not isinstance(by, int) or isinstance(by, bool) or abs(by) > 10**6:
            status, text = "invalid_call", "error: call add with a small whole number `by`"
        else:
            self.sum += by
            text = f"the sum is {self.sum}"
        return ToolResult(call_id=request.call_id, status=status, text=text)

    async def step(self, action: Action) -> StepResult:
        if self.has_ended:
            raise EnvironmentBrokenError("it has ended")
        if action.calls or action.parse_error:
            return self.turn(())
        self.has_ended = True
        return StepResult(observations=())

    def turn(self, messages: tuple[Message, ...]) -> StepResult:
        return StepResult(observations=(Observation(actor="agent", messages=messages, state_hash=self.state_hash()),))

    def state_hash(self) -> str:
        return digest([self.task.task_id, self.sum])

    async def artifacts(self) -> Mapping[str, bytes]:
        return {"sum": str(self.sum).encode()}

    async def snapshot(self) -> bytes:
        return canonical_json({"sum": self.sum}).encode()


@dataclass(kw_only=True)
class Adding:
    """The environment."""

    episode: type[Add] = Add
    name: str = "adding"
    revision: str = "1"
    actors: Mapping[str, str] = field(default_factory=lambda: {"agent": "policy"})
    tools: Mapping[str, str] = field(default_factory=lambda: {"add": SCHEMA})
    leave: Callable[[], None] = lambda: None

    @asynccontextmanager
    async def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AsyncGenerator[Add]:
        await asyncio.sleep(0)
        try:
            payload_of(task)
            start = 0 if snapshot is None else int(cast("dict[str, int]", read_json(snapshot.decode()))["sum"])
        except (ValueError, TypeError, KeyError) as error:
            raise EnvironmentBrokenError(str(error)) from error
        yield self.episode(self, task, seed, start)
        self.leave()


def tasks(sizes: SplitSizes, seed: int):
    payloads = (
        Payload(messages=(Message(role="user", text=f"Make {n}."),), answer=str(n), info={}) for n in range(1, 400)
    )
    return (stratum_of(fill_splits(payloads, sizes, name="adding", revision="1"), 1.0),)


def grade(submission: Submission) -> Grade:
    value = submission.artifacts["sum"].decode()
    return Grade(value=float(value == payload_of(submission.task).answer), evidence=f"the sum is {value}")


def reference(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    wanted = int(payload_of(task).answer)
    calls = [ToolRequest(call_id="", tool="add", arguments=canonical_json({"by": by})) for by in (1, wanted - 1)]
    return (*[DemonstratedTurn(text="", calls=(call,)) for call in calls], DemonstratedTurn(text="done"))


def claim(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return (DemonstratedTurn(text=f"the sum is {payload_of(task).answer}"),)


def world(environment: Environment | None = None, **changes: object) -> World:
    """The world, with some of it put in place of what is right."""
    kept = World(
        environment=environment or Adding(),
        tasks=tasks,
        parts=(Part(verifier=FunctionVerifier(name="sum", revision="1", grade=grade)),),
        reference=reference,
        attacks={"claim": claim},
    )
    return replace(kept, **changes)
