"""Sets of programming tasks from files of this machine, in the shapes in which they are published.

    source = import_programs(Path("apps.jsonl"), format="apps", sha256="…", license="MIT")

Nothing is downloaded and nothing is run: tests that are code stay text, for a verifier that reads them. A file is taken
under the digest and the license that a person states. Where a set spans time, a window says which part of it counts.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

from rollwright.record import Message
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import HELD_OUT, TRAIN, Json, Payload, is_held_out, make_task, question_key, read_json
from rollwright.tasks.question_sets import LICENSES
from rollwright.tasks.source import HELD_OUT_SHARE, Provenance, TaskSource

__all__ = ["ProgramFormat", "Window", "import_programs"]

ProgramFormat = Literal["humaneval", "evalplus", "mbpp", "apps", "taco", "codecontests", "livecodebench"]
Row = Mapping[str, Json]
_SHOWN = 5
_NO_REFERENCE = "(the tests decide)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The days on which tasks of a set were published, both ends counted; ISO dates, so that text compares as time."""

    first: str = "0001-01-01"
    last: str = "9999-12-31"

    def __post_init__(self) -> None:
        """Refuse a window that holds nothing."""
        if len(self.first) != 10 or len(self.last) != 10 or self.first > self.last:
            raise TaskError(f"window {self.first} to {self.last}: write two dates as 2024-08-01, the first first")


def import_programs(
    path: Path,
    *,
    format: ProgramFormat,
    sha256: str,
    license: str,
    window: Window | None = None,
    held_out_share: float = HELD_OUT_SHARE,
) -> TaskSource:
    """Read a set of programming tasks as a versioned source.

    Args:
        path: JSON lines.
        format: the shape of its rows.
        sha256: of the file; part of the revision.
        license: SPDX identifier, one of `LICENSES`; part of the revision.
        window: which days count, for a set with dates; part of the revision.
        held_out_share: of the tasks; 1 for a set that only evaluates.

    Raises:
        TaskError: for another file, another license, an empty window, and rows that do not fit, by number.
    """
    if format not in get_args(ProgramFormat):
        raise TaskError(f"no program format {format!r}; there are {', '.join(get_args(ProgramFormat))}")
    if license not in LICENSES:
        raise TaskError(f"license {license!r} is none of {', '.join(sorted(LICENSES))}; look it up, and state it")
    if window is not None and format != "livecodebench":
        raise TaskError(f"rows of {format} have no dates; a window goes with livecodebench")
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error}") from error
    found = hashlib.sha256(raw).hexdigest()
    if found != sha256:
        raise TaskError(f"{path} has sha256 {found}, not {sha256 or 'none'}; it is another file than was named")
    payloads = _payloads(raw, format, window, path)
    span = f":{window.first}..{window.last}" if window else ""
    source = _source(payloads, f"{format}:{found[:16]}:{license}{span}", format, held_out_share)
    return replace(source, provenance=Provenance(license=license))


def _payloads(raw: bytes, format: ProgramFormat, window: Window | None, path: Path) -> list[Payload]:
    read, payloads, faults = _READERS[format], list[Payload](), list[str]()
    for number, line in enumerate(raw.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row = read_json(line.decode())
            if not isinstance(row, Mapping):
                raise TaskError("it is no object")
            if window is None or window.first <= _text(row, "contest_date")[:10] <= window.last:
                payloads.append(read(row))
        except (ValueError, RecursionError) as error:
            faults.append(f"line {number}: {error}")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise TaskError(f"{path}: {len(faults)} bad rows. " + "; ".join(faults[:_SHOWN]) + more)
    if not payloads:
        raise TaskError(f"{path} holds no task" + (f" from {window.first} to {window.last}" if window else ""))
    return payloads


def _source(payloads: Sequence[Payload], revision: str, name: str, share: float) -> TaskSource:
    by_question = {question_key(payload): payload for payload in payloads}
    train, held_out = list[Payload](), list[Payload]()
    for payload in by_question.values():
        (held_out if is_held_out(payload, share) else train).append(payload)
    return TaskSource(
        name=name,
        revision=revision,
        train=tuple(make_task(p, source=name, revision=revision, split=TRAIN) for p in train),
        held_out=tuple(make_task(p, source=name, revision=revision, split=HELD_OUT) for p in held_out),
    )


def _humaneval(row: Row) -> Payload:
    prompt, entry_point = _text(row, "prompt"), _text(row, "entry_point")
    info: dict[str, Json] = {"entry_point": entry_point, "prelude": _before(prompt, entry_point)}
    if "test" in row:
        return _payload(prompt, row, {**info, "tests": _text(row, "test")}, reference=_reference(row))
    return _payload(prompt, row, info, reference=_reference(row))


def _evalplus(row: Row) -> Payload:
    """Inputs without values: what they give is computed by the reference, in a sandbox."""
    payload = _humaneval({key: value for key, value in row.items() if key != "test"})
    inputs = [*_list(row, "base_input"), *_list(row, "plus_input")]
    if payload.answer == _NO_REFERENCE or not inputs:
        raise TaskError("it needs canonical_solution, base_input and plus_input")
    return Payload(messages=payload.messages, answer=payload.answer, info={**payload.info, "inputs": inputs})


def _mbpp(row: Row) -> Payload:
    question = _text(row, "text" if "text" in row else "prompt")
    tests = [*_list(row, "test_list"), *_list(row, "challenge_test_list", default=[])]
    shown = "\n".join(str(test) for test in tests[:1])
    info: dict[str, Json] = {"tests": tests}
    if isinstance(setup := row.get("test_setup_code"), str) and setup.strip():
        info["prelude"] = setup
    return _payload(f"{question}\n\nThe function passes this test:\n{shown}", row, info, reference=row.get("code"))


def _apps(row: Row) -> Payload:
    tests = row.get("input_output")
    tests = read_json(tests) if isinstance(tests, str) else tests
    if not isinstance(tests, Mapping):
        raise TaskError("input_output is no map of inputs and outputs")
    info: dict[str, Json] = {"tests": {name: tests[name] for name in ("inputs", "outputs") if name in tests}}
    if isinstance(function := tests.get("fn_name"), str):
        info |= {"entry_point": function, "sequences": "alike"}
    solutions = row.get("solutions")
    solutions = read_json(solutions) if isinstance(solutions, str) and solutions.strip() else solutions
    first = solutions[0] if isinstance(solutions, Sequence) and solutions and not isinstance(solutions, str) else None
    starter = row.get("starter_code")
    question = _text(row, "question") + (f"\n\n{starter}" if isinstance(starter, str) and starter.strip() else "")
    return _payload(question, row, info, reference=first)


def _codecontests(row: Row) -> Payload:
    tests: list[Json] = []
    for name in ("public_tests", "private_tests", "generated_tests"):
        group = row.get(name)
        if isinstance(group, Mapping):
            pairs = zip(_list(group, "input"), _list(group, "output"), strict=True)
            tests += [{"stdin": given, "expected": wanted} for given, wanted in pairs]
    info: dict[str, Json] = {"tests": tests}
    limit = row.get("time_limit")
    if isinstance(limit, Mapping):
        seconds, nanos = limit.get("seconds", 0), limit.get("nanos", 0)
        if isinstance(seconds, int) and isinstance(nanos, int):
            info["wall_s"] = seconds + nanos / 1e9
    if isinstance(memory := row.get("memory_limit_bytes"), int) and memory > 0:
        info["memory_bytes"] = memory
    return _payload(_text(row, "description"), row, info, reference=None)


def _livecodebench(row: Row) -> Payload:
    tests: list[Json] = []
    for name in ("public_test_cases", "private_test_cases"):
        given = row.get(name, "[]")
        try:
            listed = read_json(given) if isinstance(given, str) else given
        except ValueError as error:
            raise TaskError(f"{name} is no JSON; a pickled one is never opened, so write it as JSON first") from error
        if not isinstance(listed, Sequence) or isinstance(listed, str):
            raise TaskError(f"{name} is no list")
        tests += listed
    info: dict[str, Json] = {"tests": tests, "sequences": "alike", "contest_date": _text(row, "contest_date")[:10]}
    metadata = row.get("metadata", "{}")
    metadata = read_json(metadata) if isinstance(metadata, str) else metadata
    if isinstance(metadata, Mapping) and isinstance(name := metadata.get("func_name"), str):
        info["entry_point"] = name
    starter = row.get("starter_code")
    question = _text(row, "question_content") + (f"\n\n{starter}" if isinstance(starter, str) and starter else "")
    return _payload(question, row, info, reference=None)


_READERS: Mapping[ProgramFormat, Callable[[Row], Payload]] = MappingProxyType(
    {
        "humaneval": _humaneval,
        "evalplus": _evalplus,
        "mbpp": _mbpp,
        "apps": _apps,
        "taco": _apps,
        "codecontests": _codecontests,
        "livecodebench": _livecodebench,
    }
)


def _payload(question: str, row: Row, info: Mapping[str, Json], *, reference: Json) -> Payload:
    if "tests" in info and not info["tests"]:
        raise TaskError("it has no tests")
    named = row.get("task_id", row.get("question_id", row.get("problem_id", row.get("name"))))
    answer = reference if isinstance(reference, str) and reference.strip() else _NO_REFERENCE
    number: dict[str, Json] = {} if named is None else {"row": str(named)}
    return Payload(messages=(Message(role="user", text=question),), answer=answer, info={**info, **number})


def _reference(row: Row) -> Json:
    solution = row.get("canonical_solution")
    return _text(row, "prompt") + solution if isinstance(solution, str) and solution.strip() else None


def _before(prompt: str, entry_point: str) -> str:
    """What a prompt defines before the function that is asked for: imports, and functions to use."""
    head, found, _ = prompt.partition(f"def {entry_point}(")
    return head if found else ""


def _text(row: Row, key: str) -> str:
    value = row.get(key)
    if not isinstance(value, str) or not value.strip():
        raise TaskError(f"{key} is missing or no text")
    return value


def _list(row: Row, key: str, *, default: Sequence[Json] | None = None) -> Sequence[Json]:
    value = row.get(key, default)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise TaskError(f"{key} is missing or no list")
    return value
