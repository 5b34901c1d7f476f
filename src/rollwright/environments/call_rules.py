"""What environments with tools do alike: the limits of calls, why one is not run, and the state that calls make."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import MappingProxyType
from typing import cast

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.environments.schemas import ArgumentError, Arguments, FunctionSchema, read_arguments
from rollwright.environments.tools import clean_text, cut_text
from rollwright.record import EnvironmentBrokenError, Message, Task, ToolRequest, canonical_json
from rollwright.tasks import TaskError, payload_of, read_json

__all__ = [
    "ACTOR",
    "CallRecord",
    "CallState",
    "Refusal",
    "ToolLimits",
    "complaint",
    "opening_messages",
    "read_call",
    "restored_state",
]

ACTOR = "agent"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLimits:
    """What one episode may ask of its tools."""

    calls: int = 8
    """Requests in all, malformed arguments included; later ones are answered with status `limit`."""
    result_characters: int = 400
    """Longer results are cut, with a mark."""
    argument_characters: int = 2000
    call_timeout_s: float = 10.0
    """Of one call; a tool that is declared quick bounds itself."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing through."""
        if self.calls < 0 or self.result_characters < 16 or self.argument_characters < 2 or self.call_timeout_s <= 0:
            raise EnvironmentSetupError(
                f"{self}: calls must be at least 0, result_characters at least 16, argument_characters at least 2, "
                "call_timeout_s above 0"
            )

    def declared(self) -> Mapping[str, float]:
        """Name to number, as a `LimitedEnvironment` says them."""
        return MappingProxyType(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRecord:
    """What became of one request."""

    tool: str
    arguments: str
    status: str
    result_sha256: str


@dataclass(slots=True, eq=False)
class CallState:
    """All that an episode remembers whose state is its calls and their results."""

    task_id: str
    seed: int
    turns: int = 0
    has_ended: bool = False
    calls: list[CallRecord] = field(default_factory=list[CallRecord])

    def text(self) -> str:
        """Canonical JSON of the state."""
        calls = [[c.tool, c.arguments, c.status, c.result_sha256] for c in self.calls]
        return canonical_json(
            {
                "task_id": self.task_id,
                "seed": self.seed,
                "turns": self.turns,
                "has_ended": self.has_ended,
                "calls": calls,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a call is not run; the policy reads the text."""

    status: str
    text: str


def read_call(
    request: ToolRequest, place: int, *, limits: ToolLimits, schemas: Mapping[str, FunctionSchema]
) -> Arguments | Refusal:
    """The arguments of a call that may be run.

    Args:
        request: as the policy wrote it.
        place: of the call in the episode, from 0.
        limits: of the episode.
        schemas: of the tools that there are.
    """
    if place >= limits.calls:
        return Refusal(status="limit", text=f"error: no calls left, {limits.calls} are allowed")
    schema = schemas.get(request.tool)
    if schema is None:
        known = ", ".join(schemas) or "none"
        return Refusal(status="invalid_call", text=f"error: unknown tool {request.tool[:40]!r}; available: {known}")
    if len(request.arguments) > limits.argument_characters:
        given, allowed = len(request.arguments), limits.argument_characters
        return Refusal(status="invalid_call", text=f"error: {given} characters of arguments, {allowed} are allowed")
    try:
        return read_arguments(schema, request.arguments)
    except ArgumentError as error:
        return Refusal(status="invalid_call", text=f"error: {error}")


def complaint(parse_error: str, limits: ToolLimits) -> Message:
    """What is said of a turn whose calls could not be read."""
    return Message(role="user", text=cut_text(clean_text(f"error: {parse_error}"), limits.result_characters))


def opening_messages(task: Task, system_prompt: str) -> tuple[Message, ...]:
    """The task's messages behind a system prompt, which joins one that the task has.

    Raises:
        EnvironmentBrokenError: for a task that cannot be read.
    """
    try:
        asked = payload_of(task).messages
    except TaskError as error:
        raise EnvironmentBrokenError(str(error)) from error
    if not system_prompt:
        return asked
    if asked[0].role == "system":
        return (Message(role="system", text=f"{system_prompt}\n\n{asked[0].text}"), *asked[1:])
    return (Message(role="system", text=system_prompt), *asked)


def restored_state(snapshot: bytes, task: Task, seed: int) -> CallState:
    """Read a state again.

    Raises:
        EnvironmentBrokenError: where it is no state of this task and seed.
    """
    try:
        loaded = cast("Mapping[str, object]", read_json(snapshot.decode()))
        if loaded["task_id"] != task.task_id or loaded["seed"] != seed:
            raise ValueError(f"it is of task {loaded['task_id']} and seed {loaded['seed']}")
        calls = [
            CallRecord(tool=tool, arguments=arguments, status=status, result_sha256=sha256)
            for tool, arguments, status, sha256 in cast("Sequence[tuple[str, str, str, str]]", loaded["calls"])
        ]
        turns, has_ended = cast("int", loaded["turns"]), cast("bool", loaded["has_ended"])
    except (ValueError, KeyError, TypeError) as error:
        raise EnvironmentBrokenError(f"the snapshot does not fit task {task.task_id}: {error}") from error
    return CallState(task_id=task.task_id, seed=seed, turns=turns, has_ended=has_ended, calls=calls)
