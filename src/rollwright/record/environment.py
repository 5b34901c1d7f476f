"""What an environment is asked and what it answers: messages and tool results, never tokens."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

__all__ = [
    "Action",
    "Environment",
    "Episode",
    "Message",
    "NamedValue",
    "Observation",
    "StepResult",
    "Task",
    "ToolRequest",
    "ToolResult",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A problem; what solves it is in `payload`, which the policy never sees as such."""

    task_id: str
    """`<source>/<16 hex of its canonical JSON>`."""
    source: str
    revision: str
    split: str
    payload: str
    """Canonical JSON, for environment and verifiers only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A call that parsed."""

    call_id: str
    tool: str
    arguments: str
    """JSON, as the policy wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What a call gave."""

    call_id: str
    status: str
    """One of ok, tool_error, invalid_call, timeout, limit, refused."""
    text: str
    cost: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedValue:
    """A number with its name."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Opens a turn of one actor; several may be open."""

    actor: str
    messages: tuple[Message, ...]
    is_fresh_context: bool = False
    spawned_by: str | None = None
    state_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What an actor did in its turn."""

    actor: str
    turn: int
    text: str
    calls: tuple[ToolResult, ...]
    parse_error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What follows an action. No turn open and no end: model_end."""

    observations: tuple[Observation, ...]
    """The driver renders tool results before them."""
    rewards: tuple[NamedValue, ...] = ()
    """Verdicts of scope turn."""
    end: Literal["environment_success", "environment_failure", "safety_stop"] | None = None


class Episode(Protocol):
    """One episode. Raises EnvironmentBrokenError for its own faults; the policy's are observations."""

    @property
    def tools(self) -> Mapping[str, str]:
        """Name to JSON schema, fixed for the episode."""
        ...

    async def begin(self) -> StepResult:
        """The first observations."""
        ...

    async def call(self, request: ToolRequest) -> ToolResult:
        """Run one tool call."""
        ...

    async def step(self, action: Action) -> StepResult:
        """Take an actor's finished turn."""
        ...

    async def artifacts(self) -> Mapping[str, bytes]:
        """What the episode leaves for the verifiers, by name."""
        ...

    async def snapshot(self) -> bytes:
        """The state, or NotSnapshottableError."""
        ...


class Environment(Protocol):
    """A kind of episode. Leaving the context ends all that the episode started."""

    @property
    def name(self) -> str:
        """Its name in the tables."""
        ...

    @property
    def revision(self) -> str:
        """A digest of what decides its behavior."""
        ...

    @property
    def actors(self) -> Mapping[str, str]:
        """Actor to policy."""
        ...

    def open(self, task: Task, *, seed: int, snapshot: bytes | None = None) -> AbstractAsyncContextManager[Episode]:
        """Open a single-use episode; `seed` is the reset seed."""
        ...
