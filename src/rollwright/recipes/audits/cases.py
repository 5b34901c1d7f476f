"""Labeled cases from a file: a task, what was answered, and whether a person holds it for right."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from rollwright.recipes.errors import RecipeError
from rollwright.record import Passage, Submission, Task, canonical_json
from rollwright.tasks import Json, Payload, TaskError, make_task, parse_messages

__all__ = ["LabeledCase", "read_cases"]

_SOURCE = "cases"
_ASKED = ("question", "prompt", "messages", "problem")
_ANSWERED = ("completion", "submission")
_OWN = (*_ASKED, "answer", "info", "id", "task_id")
_NAMED_FUNCTION = ("entry_point", "fn_name", "function")
_NO_QUESTION = "(no question)"
_TESTS_DECIDE = "(decided by the tests)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabeledCase:
    """One line of the file."""

    id: str
    """The line's own, or `line N`."""
    line: int
    kind: str
    """What it is a case of; empty where the line does not say."""
    note: str
    is_right: bool
    has_answer: bool
    """Whether its task has a gold answer; tests or a schema may decide instead."""
    submission: Submission


def read_cases(path: Path) -> tuple[LabeledCase, ...]:
    """Read a file of JSON objects, one a line.

    Each has `task` (a map with `question` or `prompt`, and `answer`, or `tests` for programs, or `schema`),
    `completion` or `submission`, and `label`; `kind`, `note` and `id` may stand beside them. What else a task holds,
    such as `entry_point` or `tolerance`, goes to the verifier.

    Raises:
        RecipeError: naming the line and what is wrong with it; for a file without cases as well.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecipeError(f"{path} is no UTF-8 text: byte {error.start} belongs to no character.") from error
    except OSError as error:
        raise RecipeError(f"{path} cannot be read: {error.strerror}.") from error
    cases = [_case(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not cases:
        raise RecipeError(f"{path} holds no cases; write one JSON object a line, with task, completion and label.")
    return _with_ids_of_their_own(cases)


def _case(path: Path, number: int, line: str) -> LabeledCase:
    def refuse(why: str) -> RecipeError:
        return RecipeError(f"line {number} of {path} {why}.")

    try:
        loaded: object = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise refuse(f"is no JSON: {error}") from error
    if not isinstance(loaded, dict):
        raise refuse(f"is a {type(loaded).__name__}; it must be an object with task, completion and label")
    fields = cast("dict[str, Json]", _plain(cast("object", loaded)))
    task, label = fields.get("task"), fields.get("label")
    if not isinstance(task, Mapping):
        raise refuse("has no task; it must be an object with a question and an answer, or a prompt and tests")
    if not isinstance(label, bool) and label not in (0, 1):
        raise refuse(f"has the label {label!r}; it must be true (right) or false (wrong)")
    given = [name for name in _ANSWERED if name in fields]
    if len(given) != 1:
        raise refuse(
            f"has {' and '.join(given) or 'no completion'}; it must have completion or submission, one of both"
        )
    try:
        made = _task(task, number)
        said = _said(fields[given[0]])
    except (ValueError, TaskError) as error:
        raise refuse(f"cannot be read: {str(error).rstrip('.')}") from error
    own = fields.get("id", task.get("id"))
    name = f"line {number}" if own is None else str(own)
    return LabeledCase(
        id=name,
        line=number,
        kind=_text(fields.get("kind")),
        note=_text(fields.get("note")),
        is_right=bool(label),
        has_answer=bool(_answer(task.get("answer")).strip()),
        submission=Submission(
            trajectory_id=f"case-{number}",
            task=made,
            terminal_reason="model_end",
            passages=(Passage(actor="agent", kind="policy", text=said),),
            artifacts={},
        ),
    )


def _with_ids_of_their_own(cases: Sequence[LabeledCase]) -> tuple[LabeledCase, ...]:
    """An id that several lines have gets the line behind it."""
    counts = Counter(case.id for case in cases)
    return tuple(replace(case, id=f"{case.id} (line {case.line})") if counts[case.id] > 1 else case for case in cases)


def _task(fields: Mapping[str, Json], number: int) -> Task:
    """A task; one whose gold answer is empty is made all the same, since verifiers must refuse it."""
    asked = next((fields[name] for name in _ASKED if fields.get(name) is not None), _NO_QUESTION)
    if isinstance(asked, str):
        asked = [{"role": "user", "content": asked if asked.strip() else _NO_QUESTION}]
    messages = parse_messages(asked)
    answer, info = _answer(fields.get("answer")), _info(fields)
    if not answer.strip() and ({"tests", "schema"} & set(info)):
        answer = _TESTS_DECIDE
    if answer.strip():
        return make_task(
            Payload(messages=messages, answer=answer, info=info), source=_SOURCE, revision="file", split="held_out"
        )
    payload = {"answer": answer, "info": info, "question": messages[-1].text}
    return Task(
        task_id=f"{_SOURCE}/line-{number}",
        source=_SOURCE,
        revision="file",
        split="held_out",
        payload=canonical_json(payload),
    )


def _info(fields: Mapping[str, Json]) -> Mapping[str, Json]:
    given = fields.get("info")
    info = dict(given) if isinstance(given, Mapping) else {}
    info |= {name: value for name, value in fields.items() if name not in _OWN}
    function = next((info[name] for name in _NAMED_FUNCTION if isinstance(info.get(name), str)), None)
    if function is not None:
        info["entry_point"] = function
    answer = fields.get("answer")
    if isinstance(answer, list):
        info.setdefault("items", answer)
    return info


def _answer(given: Json) -> str:
    """An answer as text; a map is a schema or a value, in JSON."""
    match given:
        case None:
            return ""
        case str():
            return given
        case bool():
            return str(given)
        case int():
            return str(given)
        case float():
            return repr(given)
        case _:
            return json.dumps(given, ensure_ascii=False)


def _said(given: Json) -> str:
    """What the policy said: text, nothing, a number, or messages of which the last one counts."""
    if given is None:
        return ""
    if isinstance(given, Sequence) and not isinstance(given, str):
        last = given[-1] if given else None
        if not isinstance(last, Mapping) or not isinstance(last.get("content"), str):
            raise ValueError("its completion is a list; the last item must be a message with text as content")
        return str(last["content"])
    if isinstance(given, Mapping):
        raise ValueError("its completion is an object; it must be text")
    return _answer(given)


def _text(given: Json) -> str:
    return "" if given is None else given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


def _plain(value: object) -> object:
    """Text without halves of characters, and numbers that JSON has no word for in the form that tests have."""
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case float() if not math.isfinite(value):
            return {"$float": str(value)}
        case list():
            return [_plain(item) for item in cast("list[object]", value)]
        case dict():
            return {str(_plain(key)): _plain(item) for key, item in cast("dict[str, object]", value).items()}
        case _:
            return value
