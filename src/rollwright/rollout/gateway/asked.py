"""What a request asks and what it is answered, in the words of no API."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from rollwright.record import Ids, Logprobs

__all__ = ["Answer", "Ask", "Heard", "Overruled", "Told", "ToldCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """A message to the policy."""

    role: Literal["system", "user", "tool"]
    text: str
    call_id: str | None = None
    """Of a tool's message: the call that it answers, by the id that the agent was given."""
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldCall:
    """A call as the agent has it."""

    call_id: str
    tool: str
    arguments: str
    """JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A turn of the policy as the agent has it, or as the agent says it was."""

    text: str
    reasoning: str | None = None
    """None: there was none, or the agent does not send it back."""
    calls: tuple[ToldCall, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overruled:
    """How the agent would have tokens drawn; the episode's own sampling stands."""

    numbers: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request."""

    model: str
    """Any name: the address says whose turn it is."""
    messages: tuple[Heard | Told, ...]
    num_instructions: int = 0
    """Messages at the front that a follow-up by id does not take over."""
    tools: Mapping[str, str] = field(default_factory=dict[str, str])
    """Name to definition, JSON."""
    calls: Literal["read", "one", "text"] = "text"
    """Read as calls; so, and at most one; or left in the text."""
    num_answers: int = 1
    max_tokens: int | None = None
    stops: tuple[str, ...] = ()
    has_logprobs: bool = False
    is_streamed: bool = False
    has_usage_event: bool = False
    """Of a stream: how much was used is said at its end."""
    shows_reasoning: bool = True
    sampling: Overruled = Overruled(numbers={})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """One turn, whole."""

    told: Told
    finish: Literal["stop", "stop_string", "length", "calls"]
    stop_string: str | None
    token_ids: Ids
    """As sampled, stop token included."""
    behavior_logprobs: Logprobs
    num_prompt_tokens: int
    num_reasoning_tokens: int
