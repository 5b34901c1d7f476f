"""One test of one program in a sandbox: what came out, or what went wrong, and whose doing it was.

code ──write──► sandbox ◄──one program a test── input
                   └──file──► plain values or output, compared here
"""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rollwright.sandboxes import Sandbox, SandboxResult
from rollwright.verifiers.call_program import PlainValueError, read_value, write_value
from rollwright.verifiers.equality import ValueRule, same_value
from rollwright.verifiers.program_output import same_output
from rollwright.verifiers.program_tests import CallTest, Language, ProgramTests, StreamTest

__all__ = ["PRELOADED", "PROGRAMS_REVISION", "TestOutcome", "TestStatus", "call_value", "prepare_program", "run_test"]

PROGRAMS_REVISION = 2
PRELOADED = (
    "bisect", "collections", "functools", "heapq", "itertools", "json", "math", "operator", "random", "re", "resource",
    "runpy", "string", "types", "typing",
)  # fmt: skip
"""Modules that most solutions import, for the profile of their sandboxes."""
_CALL = Path(__file__).with_name("call_program.py")
_STREAM = Path(__file__).with_name("stream_program.py")
_MAX_REPLY_BYTES = 4 * 2**20
_COMPILE_S = 30.0
_COMPILE = "g++ -std=c++17 -O1 -o solution solution.cpp"
_FILES: dict[Language, str] = {"python": "solution.py", "sh": "solution.sh", "cpp": "solution.cpp"}

TestStatus = Literal["passed", "wrong", "raised", "ended_early", "timeout", "memory_limit", "not_plain"]
"""`ended_early`: no value was left, since the program ended or was ended before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """What became of one test."""

    __test__ = False

    status: TestStatus
    detail: str = ""


async def prepare_program(sandbox: Sandbox, tests: ProgramTests, code: str) -> TestOutcome | None:
    """Put a solution into a sandbox, compiled where its language is.

    Returns:
        None, or what kept it from being compiled.
    """
    await sandbox.write(_FILES[tests.language], code.encode(errors="replace"))
    if tests.language != "cpp":
        return None
    result = await sandbox.shell(_COMPILE, wall_s=_COMPILE_S)
    if result.status == "ok":
        return None
    return TestOutcome(status=_ended(result), detail=f"not compiled: {result.stderr[:300]}")


async def run_test(sandbox: Sandbox, tests: ProgramTests, code: str, place: int) -> TestOutcome:
    """Run one test of a prepared solution.

    Args:
        sandbox: that holds it.
        tests: with their limits.
        code: of the solution.
        place: of the test.

    Raises:
        SandboxError: where the sandbox failed by no doing of the program.
    """
    test = tests.tests[place]
    match test:
        case CallTest():
            value = await call_value(sandbox, tests, code, test, place)
            return value if isinstance(value, TestOutcome) else _compared(value[0], test, tests)
        case StreamTest():
            return await _run_stream(sandbox, tests, test, place)


async def call_value(
    sandbox: Sandbox, tests: ProgramTests, code: str, test: CallTest, place: int
) -> tuple[object] | TestOutcome:
    """Call a function once.

    Returns:
        The value alone in a tuple, or the outcome where there is none.

    Raises:
        SandboxError: where the sandbox failed by no doing of the program.
    """
    reply = f".value-{place}"
    request = {
        "source": code,
        "entry_point": tests.entry_point,
        "args": [write_value(value) for value in test.args],
        "kwargs": {name: write_value(value) for name, value in test.kwargs.items()},
        "memory_bytes": tests.memory_bytes,
        "reply": reply,
    }
    stdin = json.dumps(request).encode(errors="replace")
    result = await sandbox.program(_CALL.read_text(encoding="utf-8"), stdin=stdin, wall_s=tests.wall_s)
    if result.status in ("timeout", "cpu_limit"):
        return TestOutcome(status="timeout", detail=result.status)
    written = await sandbox.read(reply, max_bytes=_MAX_REPLY_BYTES)
    if written is None:
        return TestOutcome(status=_ended(result), detail=result.stderr[-300:])
    try:
        answer: Any = json.loads(written)
        if "value" not in answer:
            return _raised(written)
        return (read_value(answer["value"]),)
    except (ValueError, TypeError, RecursionError) as error:
        return TestOutcome(status="not_plain", detail=f"{type(error).__name__}: {error}"[:300])


def _raised(written: bytes) -> TestOutcome:
    text = written[:400].decode(errors="replace")
    kind: TestStatus = "memory_limit" if "MemoryError" in text else "raised"
    return TestOutcome(status="not_plain" if PlainValueError.__name__ in text else kind, detail=text)


def _compared(value: object, test: CallTest, tests: ProgramTests) -> TestOutcome:
    match test.check:
        case "equal":
            rule = ValueRule(absolute=test.absolute, sequences=tests.sequences)
            is_right = same_value(value, test.expected, rule)
        case "true":
            is_right = bool(value)
        case "false":
            is_right = not value
    return TestOutcome(status="passed" if is_right else "wrong", detail="" if is_right else _told(value))


def _told(value: object) -> str:
    """The beginning of a value, for people; Python writes no integer of more than some thousand digits."""
    try:
        return repr(value)[:200]
    except ValueError as error:
        return f"a {type(value).__name__} that cannot be written: {error}"[:200]


async def _run_stream(sandbox: Sandbox, tests: ProgramTests, test: StreamTest, place: int) -> TestOutcome:
    output = f".output-{place}"
    stdin = test.stdin.encode(errors="replace")
    run = _commands(sandbox, tests, output)[tests.language]
    result = await run(stdin)
    if result.status != "ok":
        return TestOutcome(status=_ended(result), detail=result.stderr[-300:])
    most = 4 * len(test.expected) + 65_536
    written = await sandbox.read(output, max_bytes=most + 1) or b""
    text = written.decode(errors="replace")
    if len(written) > most:  # What stands behind was not read, and counts as much as what stands before.
        return TestOutcome(status="wrong", detail=f"more than {most} bytes, beginning with {text[:100]!r}")
    if same_output(text, test.expected):
        return TestOutcome(status="passed")
    return TestOutcome(status="wrong", detail=text[:200])


def _commands(
    sandbox: Sandbox, tests: ProgramTests, output: str
) -> dict[Language, Callable[[bytes], Awaitable[SandboxResult]]]:
    bounded = f"ulimit -v {tests.memory_bytes // 1024}; exec"
    argv = ("solution.py", output, str(tests.memory_bytes))
    program = _STREAM.read_text(encoding="utf-8")
    return {
        "python": lambda stdin: sandbox.program(program, stdin=stdin, argv=argv, wall_s=tests.wall_s),
        "sh": lambda stdin: sandbox.shell(f"{bounded} sh solution.sh > {output}", stdin=stdin, wall_s=tests.wall_s),
        "cpp": lambda stdin: sandbox.shell(f"{bounded} ./solution > {output}", stdin=stdin, wall_s=tests.wall_s),
    }


def _ended(result: SandboxResult) -> TestStatus:
    match result.status:
        case "timeout" | "cpu_limit":
            return "timeout"
        case "memory_limit":
            return "memory_limit"
        case "failed":
            return "memory_limit" if "MemoryError" in result.stderr else "raised"
        case "ok":
            return "ended_early"
