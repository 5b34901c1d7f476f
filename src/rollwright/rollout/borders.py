"""What an environment gives is looked at here, at the border: what is not as the protocol says breaks the environment.

An environment may come from outside the project. Nothing that it answers goes further unread, so that its mistakes
become the failure of one episode, with a cause, and never a reward, a row that cannot be stored, or the end of a run.
"""

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from rollwright.record import (
    Environment,
    EnvironmentBrokenError,
    Message,
    NamedValue,
    Observation,
    StepResult,
    ToolResult,
)

__all__ = [
    "Face",
    "describe",
    "is_cancelled",
    "read_artifacts",
    "read_face",
    "read_result",
    "read_snapshot",
    "read_step",
    "read_tools",
    "storable",
]

CAUSE_CHARACTERS = 2000
LARGEST_REWARD = 1e12
"""Either sign: its square and a sum of those stay finite in single precision."""
T = TypeVar("T")
_ENDS = frozenset({"environment_success", "environment_failure", "safety_stop"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """What an environment says of itself, read once for an episode."""

    name: str
    revision: str
    actors: Mapping[str, str]
    fault: str | None = None
    """Why the episode cannot be opened."""


def read_face(environment: Environment) -> Face:
    """Read an environment's name, revision and actors; what is wrong with them is the face's fault."""
    name = revision = "unreadable"
    try:
        name = _text("its name", environment.name)
        revision = _text("its revision", environment.revision)
        return Face(name=name, revision=revision, actors=_texts("its actors", environment.actors))
    except Exception as error:  # noqa: BLE001 - kept until the episode can end by it
        return Face(name=name, revision=revision, actors={}, fault=describe(error))


def read_tools(given: object) -> Mapping[str, str]:
    """Check the tools of an episode.

    Raises:
        EnvironmentBrokenError: where they are not text by name.
    """
    return _texts("its tools", given)


def read_step(given: object) -> StepResult:
    """Check a step, with its rewards as plain floats.

    Raises:
        EnvironmentBrokenError: for anything that is not as `StepResult` says.
    """
    if not isinstance(given, StepResult):
        raise EnvironmentBrokenError(f"it answered with a {type(given).__name__} where a StepResult is due")
    for observation in _all("observations", given.observations, Observation):
        _text("the actor of an observation", observation.actor)
        for message in _all("messages", observation.messages, Message):
            _text("a message", message.text)
            _text("the role of a message", message.role)
        if observation.state_hash is not None:
            _text("a state_hash", observation.state_hash)
        if observation.spawned_by is not None:
            _text("spawned_by", observation.spawned_by)
    if not _is_end(given.end):
        allowed = ", ".join(sorted(_ENDS))
        raise EnvironmentBrokenError(f"its end is {given.end!r}; it may be {allowed}, or None")
    rewards = _all("rewards", given.rewards, NamedValue)
    if not rewards:
        return given
    return replace(given, rewards=tuple(_reward(reward) for reward in rewards))


def read_result(given: object) -> ToolResult:
    """Check the answer to a call.

    Raises:
        EnvironmentBrokenError: for anything that is not as `ToolResult` says.
    """
    if not isinstance(given, ToolResult):
        raise EnvironmentBrokenError(f"a tool answered with a {type(given).__name__} where a ToolResult is due")
    _text("the status of a call", given.status)
    _text("a tool's text", given.text)
    return given if given.cost is None else replace(given, cost=_number("the cost of a call", given.cost))


def read_snapshot(given: object) -> bytes:
    """Check a snapshot.

    Raises:
        EnvironmentBrokenError: where it is not bytes.
    """
    if not isinstance(given, bytes):
        raise EnvironmentBrokenError(f"its snapshot is a {type(given).__name__}; it must be bytes")
    return given


def read_artifacts(given: object) -> Mapping[str, bytes]:
    """Check what an episode leaves.

    Raises:
        EnvironmentBrokenError: where it is not bytes by name.
    """
    if not isinstance(given, Mapping):
        raise EnvironmentBrokenError(f"its artifacts are a {type(given).__name__}; they must be bytes by name")
    artifacts = dict(cast("Mapping[object, object]", given))
    for name, content in artifacts.items():
        _text("the name of an artifact", name)
        if not isinstance(content, bytes):
            raise EnvironmentBrokenError(f"its artifact {name!r} is a {type(content).__name__}; it must be bytes")
    return cast("Mapping[str, bytes]", artifacts)


def describe(error: BaseException) -> str:
    """Class and message of an error, also of one whose message cannot be had."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - an error from outside may fail at saying what it is
        return type(error).__name__


def storable(cause: str) -> str:
    """A cause as it is recorded: cut to its bound, without halves of characters."""
    return cause[:CAUSE_CHARACTERS].encode(errors="replace").decode()


def is_cancelled(error: BaseException) -> bool:
    """Whether the task that runs this is itself being ended by `error`, which code from outside may raise as well."""
    task = asyncio.current_task()
    return isinstance(error, GeneratorExit) or task is None or task.cancelling() > 0


def _all(what: str, given: object, kind: type[T]) -> Sequence[T]:
    if not isinstance(given, (tuple, list)):
        raise EnvironmentBrokenError(f"its {what} are a {type(given).__name__}; they must be a tuple")
    for one in cast("Sequence[object]", given):
        if not isinstance(one, kind):
            raise EnvironmentBrokenError(f"among its {what} is a {type(one).__name__}; each must be a {kind.__name__}")
    return cast("Sequence[T]", given)


def _is_end(given: object) -> bool:
    return given is None or (isinstance(given, str) and given in _ENDS)


def _reward(reward: NamedValue) -> NamedValue:
    name = _text("the name of a reward", reward.name)
    return NamedValue(name=name, value=_number(f"its reward {name}", reward.value))


def _number(what: str, given: object) -> float:
    try:
        number = math.nan if isinstance(given, (str, bytes)) else float(cast("float", given))
    except Exception as error:
        raise EnvironmentBrokenError(f"{what} is a {type(given).__name__}, not a number") from error
    if not abs(number) <= LARGEST_REWARD:
        raise EnvironmentBrokenError(f"{what}, {given!r}, is not a finite number of at most {LARGEST_REWARD:g}")
    return number


def _texts(what: str, given: object) -> Mapping[str, str]:
    if not isinstance(given, Mapping):
        raise EnvironmentBrokenError(f"{what} are a {type(given).__name__}; they must be text by name")
    pairs = dict(cast("Mapping[object, object]", given))
    return {_text(f"a name in {what}", name): _text(what, text) for name, text in pairs.items()}


def _text(what: str, given: object) -> str:
    if not isinstance(given, str):
        raise EnvironmentBrokenError(f"{what} is a {type(given).__name__}; it must be text")
    if not given.isascii():
        try:
            given.encode()
        except UnicodeEncodeError as error:
            raise EnvironmentBrokenError(f"{what} has halves of characters and cannot be stored") from error
    return given
