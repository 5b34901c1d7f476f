"""What a task holds: the question or conversation, the gold answer, and what else is known about it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, cast

from rollwright.record import Message, Task, canonical_json, digest
from rollwright.tasks.errors import TaskError

__all__ = [
    "HELD_OUT",
    "TRAIN",
    "Json",
    "Payload",
    "is_held_out",
    "make_task",
    "parse_messages",
    "payload_of",
    "question_key",
    "read_json",
    "slice_of",
]

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
TRAIN = "train"
HELD_OUT = "held_out"
_ROLES = ("system", "user", "assistant")


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A task's content; the policy sees `messages` alone."""

    messages: tuple[Message, ...]
    """Ends with the turn of the user that the policy answers."""
    answer: str
    """The gold answer; verifiers alone read it."""
    info: Mapping[str, Json]
    """What a verifier or a report may need: `slice`, `expression`, `tolerance`, …"""

    def __post_init__(self) -> None:
        """Refuse what cannot be asked or graded."""
        if not self.messages or self.messages[-1].role != "user":
            raise TaskError("the conversation must end with a message of role user")
        if foreign := [m.role for m in self.messages if m.role not in _ROLES]:
            raise TaskError(f"a message has role {foreign[0]!r}; allowed are {', '.join(_ROLES)}")
        if not any(m.text.strip() for m in self.messages if m.role == "user"):
            raise TaskError("the question is empty")
        if not self.answer.strip():
            raise TaskError("the answer is empty: nothing could ever be graded right")

    def canonical(self) -> str:
        """Canonical JSON; a lone question is written as `question`, anything else as `messages`."""
        asked: dict[str, Json] = {"answer": self.answer, "info": self.info}
        if len(self.messages) == 1:
            asked["question"] = self.messages[0].text
        else:
            asked["messages"] = [{"role": m.role, "content": m.text} for m in self.messages]
        return canonical_json(asked)

    def number(self, name: str, default: float) -> float:
        """A number of `info`, or `default` where there is none."""
        value = self.info.get(name)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else default

    def text(self, name: str, default: str = "") -> str:
        """A text of `info`, or `default` where there is none."""
        value = self.info.get(name)
        return value if isinstance(value, str) else default


def make_task(payload: Payload, *, source: str, revision: str, split: str) -> Task:
    """A task with its id `<source>/<16 hex of its canonical JSON>`: equal content has an equal id."""
    content = payload.canonical()
    task_id = f"{source}/{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    return Task(task_id=task_id, source=source, revision=revision, split=split, payload=content)


def payload_of(task: Task) -> Payload:
    """Read a task's payload again.

    Raises:
        TaskError: where the payload is not one that `make_task` wrote.
    """
    try:
        return _read(task.payload)
    except ValueError as error:
        raise TaskError(f"the payload of task {task.task_id} cannot be read: {error}") from error


def question_key(payload: Payload) -> str:
    """A digest of what is asked, gold answer and info aside: equal questions have equal keys in every source."""
    return digest([[m.role, " ".join(m.text.split())] for m in payload.messages])


def is_held_out(payload: Payload, share: float) -> bool:
    """Whether the question belongs to the held-out split: decided by the question alone.

    So a question never changes sides between two runs, seeds, sizes or sources that use the same share, however
    often a generator yields it.
    """
    return int(question_key(payload)[:12], 16) < share * 16**12


def slice_of(task: Task) -> str:
    """The part of its source that a task belongs to (`info.slice`); the source itself where it names none."""
    return payload_of(task).text("slice", task.source)


def read_json(text: str) -> Json:
    """Parse strict JSON: NaN and infinities are refused.

    Raises:
        ValueError: where the text is no JSON.
    """
    return cast("Json", json.loads(text, parse_constant=_refuse_constant))


def _read(text: str) -> Payload:
    loaded = read_json(text)
    if not isinstance(loaded, Mapping):
        raise TaskError("it is not a JSON object")
    answer, info, question = loaded.get("answer"), loaded.get("info"), loaded.get("question")
    if not isinstance(answer, str) or not isinstance(info, Mapping):
        raise TaskError("it needs `answer` (text) and `info` (a map)")
    if isinstance(question, str):
        return Payload(messages=(Message(role="user", text=question),), answer=answer, info=info)
    return Payload(messages=parse_messages(loaded.get("messages")), answer=answer, info=info)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def parse_messages(value: Json) -> tuple[Message, ...]:
    """Read a list of `{role, content}`.

    Raises:
        TaskError: for anything else.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TaskError("`messages` must be a list of {role, content}")
    found: list[Message] = []
    for entry in value:
        role = entry.get("role") if isinstance(entry, Mapping) else None
        content = entry.get("content") if isinstance(entry, Mapping) else None
        if not isinstance(role, str) or not isinstance(content, str):
            raise TaskError("every message needs `role` and `content`, both text")
        found.append(Message(role=role, text=content))
    return tuple(found)
