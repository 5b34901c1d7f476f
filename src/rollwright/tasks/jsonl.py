"""Tasks from JSONL files: `prompt` or `messages`, `answer`, and optionally `info`."""

import difflib
import hashlib
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from pathlib import Path

from rollwright.record import Message, Task, canonical_json
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import (
    HELD_OUT,
    TRAIN,
    Json,
    Payload,
    is_held_out,
    make_task,
    parse_messages,
    question_key,
    read_json,
)
from rollwright.tasks.source import TaskSource

__all__ = ["jsonl_source", "read_jsonl"]

_KEYS = ("answer", "info", "messages", "prompt")
_SHOWN = 5
_MAX_LINE_BYTES = 16 * 2**20


def read_jsonl(path: Path) -> tuple[Payload, ...]:
    """Read a file of tasks.

    Args:
        path: UTF-8, with or without a byte order mark, one JSON object a line; blank lines are passed over.

    Returns:
        The payloads in the order of the lines.

    Raises:
        TaskError: naming the file, the lines and what is wrong in each, for a file that is missing or holds a bad line.
    """
    payloads: list[Payload] = []
    faults: list[str] = []
    for number, line in enumerate(_bytes_of(path).removeprefix(BOM_UTF8).split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            payloads.append(_payload(line))
        except (TaskError, ValueError, RecursionError) as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise TaskError(f"{path}: {len(faults)} bad lines. " + "; ".join(faults[:_SHOWN]) + more)
    if not payloads:
        raise TaskError(f"{path} holds no task; each line is an object with `prompt` or `messages`, and `answer`")
    return tuple(payloads)


def jsonl_source(
    train: Path, held_out: Path | None = None, *, share: float = 0.1, name: str | None = None
) -> TaskSource:
    """A source from one file that is split by question, or from two files.

    Args:
        train: the rows that may train.
        held_out: the rows that never train; None: a share of the questions of `train` is held out.
        share: of the questions, used where there is no `held_out` file.
        name: of the source; the stem of `train` by default.

    Raises:
        TaskError: for bad files, and for a question that stands in both.
    """
    source = name or train.stem
    files = (train,) if held_out is None else (train, held_out)
    revision = (
        "jsonl:" + hashlib.sha256(b"".join(hashlib.sha256(_bytes_of(f)).digest() for f in files)).hexdigest()[:16]
    )
    rows = read_jsonl(train)
    if held_out is None:
        kept = tuple(p for p in rows if not is_held_out(p, share))
        reserved = tuple(p for p in rows if is_held_out(p, share))
    else:
        kept, reserved = rows, read_jsonl(held_out)
    return TaskSource(
        name=source,
        revision=revision,
        train=_tasks(kept, source, revision, TRAIN),
        held_out=_tasks(reserved, source, revision, HELD_OUT),
    )


def _tasks(payloads: Sequence[Payload], source: str, revision: str, split: str) -> tuple[Task, ...]:
    """One task for each question that differs; the first row stands for its repeats."""
    distinct = {question_key(p) + p.answer: p for p in reversed(payloads)}
    tasks = {
        task.task_id: task
        for p in reversed(distinct.values())
        for task in (make_task(p, source=source, revision=revision, split=split),)
    }
    return tuple(tasks.values())


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TaskError(f"cannot read the tasks in {path}: {error.strerror}; check the path in `tasks`") from error


def _payload(line: bytes) -> Payload:
    if len(line) > _MAX_LINE_BYTES:
        raise TaskError(f"a line of {len(line)} bytes; at most {_MAX_LINE_BYTES} are read")
    row = read_json(line.decode("utf-8"))
    if not isinstance(row, Mapping):
        raise TaskError("not a JSON object")
    for key in row:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else "put it under `info`"
            raise TaskError(f"unknown key `{key}`; {hint}")
    if ("prompt" in row) == ("messages" in row):
        raise TaskError("needs exactly one of `prompt` and `messages`")
    info = row.get("info", {})
    if not isinstance(info, Mapping):
        raise TaskError("`info` must be a map")
    payload = Payload(messages=_asked(row), answer=_answer(row), info=info)
    _check_text(payload)
    return payload


def _check_text(payload: Payload) -> None:
    """Refuse here, where the line is known, what could be neither hashed nor stored."""
    try:
        question_key(payload)
        payload.canonical().encode()
    except UnicodeEncodeError as error:
        raise TaskError(
            f"a text holds half of a surrogate pair, \\u{ord(error.object[error.start]):04x}, which is no text; "
            "write both halves or the character itself"
        ) from error


def _asked(row: Mapping[str, Json]) -> tuple[Message, ...]:
    if "messages" in row:
        return parse_messages(row["messages"])
    prompt = row["prompt"]
    if not isinstance(prompt, str):
        raise TaskError("`prompt` must be text; a conversation goes under `messages`")
    return (Message(role="user", text=prompt),)


def _answer(row: Mapping[str, Json]) -> str:
    answer = row.get("answer")
    if isinstance(answer, str):
        return answer
    if isinstance(answer, int | float) and not isinstance(answer, bool):
        return canonical_json(answer)
    raise TaskError("`answer` is missing; it must be text or a number")
