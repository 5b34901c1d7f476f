"""The tests of a programming task, read from the forms in which data sets write them.

What the tests expect stays on this side of the wall. So tests that are code are not run: assertions on a call with
literal arguments are read as calls and expected values, and what cannot be read so is refused by name.
"""

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, cast, get_args

from rollwright.tasks import Json, Payload, read_json
from rollwright.verifiers.assertions import AssertedCall, read_assertions
from rollwright.verifiers.call_program import PlainValueError, read_value
from rollwright.verifiers.errors import GoldError

__all__ = ["CallTest", "Language", "ProgramTests", "StreamTest", "read_program_tests"]

Language = Literal["python", "sh", "cpp"]
_MAX_TESTS = 2000
_ALLOW_INCOMPLETE = 0x4000
"""`PyCF_ALLOW_INCOMPLETE_INPUT` of CPython, which ast does not name: an end that is missing is told apart."""
_EXPECTED = ("expected", "output", "expected_output", "result", "stdout", "returns", "return")
_CALLED = ("function", "fn_name", "entry_point", "call")
_CALLED_IN_TEXT = re.compile(r"(?<![\w.])([A-Za-z_]\w*)\(")
_DEFINED = re.compile(r"^\s*def\s+([A-Za-z_]\w*)\s*\(", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTest:
    """A call and what it must return."""

    args: tuple[object, ...]
    kwargs: Mapping[str, object] = field(default_factory=dict[str, object])
    expected: object
    check: Literal["equal", "true", "false"] = "equal"
    """`true` and `false`: the value counts as such, as in a bare `assert`."""
    absolute: float = 0.0
    """Tolerance of numbers, where the test states one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamTest:
    """An input and what must be printed."""

    stdin: str
    expected: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramTests:
    """All tests of a task, with what its programs may use."""

    tests: tuple[CallTest, ...] | tuple[StreamTest, ...]
    entry_point: str
    """Empty: the only function that a solution defines."""
    language: Language
    wall_s: float
    memory_bytes: int
    sequences: Literal["strict", "alike"]
    """`alike`: a tuple counts as the list of its items, as in data sets that can write lists alone."""
    prelude: str
    """Code that stands before every solution: imports, or the beginning of a function that is to be completed."""


def read_program_tests(payload: Payload) -> ProgramTests:
    """The tests of `info.tests`.

    Each is `{"args", "kwargs", "expected"}`, `{"call", "expected"}`, `{"stdin", "expected"}`, `{"input", "output"}`,
    `[args, expected]`, or code with assertions; `info.tests` may also be one text of code, or APPS's map of `inputs`
    and `outputs`. Texts as input and output are streams, unless `info.entry_point` names a function.

    Raises:
        GoldError: where a test cannot be read, or there is none.
    """
    info = payload.info
    entry_point = payload.text("entry_point") or payload.text("fn_name")
    listed = _listed(info.get("tests"))
    if not listed or len(listed) > _MAX_TESTS:
        raise GoldError(f"info.tests holds {len(listed)} tests; needed are 1 to {_MAX_TESTS}")
    tests: list[CallTest | StreamTest] = []
    for place, test in enumerate(listed):
        try:
            found, named = _read(test, entry_point)
        except (ValueError, TypeError, KeyError, SyntaxError, MemoryError, RecursionError) as error:
            raise GoldError(f"test {place} cannot be read: {error}") from error
        tests += found
        entry_point = entry_point or named
    calls = tuple(test for test in tests if isinstance(test, CallTest))
    streams = tuple(test for test in tests if isinstance(test, StreamTest))
    if calls and streams or not tests:
        raise GoldError("tests must be calls, or inputs and outputs, not both" if tests else "no test asserts anything")
    if calls and not entry_point:
        asked = payload.messages[-1].text
        defined = set(_DEFINED.findall(asked)) or set(_CALLED_IN_TEXT.findall(asked))
        entry_point = defined.pop() if len(defined) == 1 else ""
    language = payload.text("language", "python")
    if language not in get_args(Language) or (calls and language != "python"):
        raise GoldError(f"language {language!r}: calls are of python, streams of {', '.join(get_args(Language))}")
    if language == "python":
        _refuse_broken(payload.text("prelude"))
    return ProgramTests(
        tests=calls or streams,
        entry_point=entry_point,
        language=cast("Language", language),
        wall_s=min(max(_above_0(payload, "wall_s", 5.0), 0.05), 120.0),
        memory_bytes=int(min(max(_above_0(payload, "memory_bytes", 256 * 2**20), 2**26), 2**34)),
        sequences="alike" if payload.text("sequences") == "alike" else "strict",
        prelude=payload.text("prelude"),
    )


def _above_0(payload: Payload, name: str, default: float) -> float:
    try:
        limit = payload.number(name, default)
    except OverflowError as error:
        raise GoldError(f"info.{name} is beyond all floats") from error
    if not limit > 0:
        raise GoldError(f"info.{name} is {limit:g}, which no program could meet; it must be above 0")
    return limit


def _refuse_broken(prelude: str) -> None:
    """Refuse code before a solution that none could complete."""
    try:
        compile(prelude, "the prelude", "exec", flags=ast.PyCF_ONLY_AST | _ALLOW_INCOMPLETE)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if not (isinstance(error, SyntaxError) and error.msg == "incomplete input"):
            raise GoldError(f"info.prelude is no Python: {error}") from error


def _listed(given: Json) -> Sequence[Json]:
    if isinstance(given, str):
        return [given]
    if isinstance(given, Mapping):
        inputs, outputs = given.get("inputs", given.get("input")), given.get("outputs", given.get("output"))
        if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
            raise GoldError("info.tests as a map needs `inputs` and `outputs`, two lists of one length")
        return [{"input": one, "output": other} for one, other in zip(inputs, outputs, strict=True)]
    return given if isinstance(given, Sequence) else []


def _read(test: Json, entry_point: str) -> tuple[list[CallTest] | list[StreamTest], str]:
    """The tests that one entry holds, and the function that it names."""
    if isinstance(test, str):
        return _asserted(test, entry_point)
    if isinstance(test, Mapping):
        if isinstance(code := test.get("assert", test.get("code")), str):
            return _asserted(code, entry_point)
        return _read_map(test, entry_point)
    if isinstance(test, Sequence) and len(test) == 2:
        return [CallTest(args=_arguments(test[0]), expected=read_value(test[1]))], ""
    raise PlainValueError(f"{json.dumps(test)[:80]} is no test")


def _read_map(  # noqa: PLR0911 - a return a form
    test: Mapping[str, Json], entry_point: str
) -> tuple[list[CallTest] | list[StreamTest], str]:
    name = next((key for key in _EXPECTED if key in test), None)
    if name is None:
        raise PlainValueError(f"it names none of {', '.join(_EXPECTED)}")
    expected = test[name]
    named = next((name for key in _CALLED if isinstance(name := test.get(key), str) and name.isidentifier()), "")
    if named and ("args" in test or "kwargs" in test):
        return [_call(test.get("args", []), test.get("kwargs", {}), expected)], named
    if isinstance(call := test.get("call"), str):
        named, args, kwargs = _called(call)
        return [CallTest(args=args, kwargs=kwargs, expected=read_value(expected))], named
    if "args" in test or "kwargs" in test:
        return [_call(test.get("args", []), test.get("kwargs", {}), expected)], ""
    given = test.get("stdin", test.get("input"))
    if test.get("testtype") == "functional":
        args = [read_json(line) for line in str(given).split("\n") if line.strip()]
        return [CallTest(args=tuple(map(read_value, args)), expected=read_value(read_json(str(expected))))], ""
    if isinstance(given, list) and isinstance(expected, list | str) and not entry_point and _is_lines(given):
        given, expected = _joined(given), _joined(expected)
    if "stdin" in test and isinstance(expected, int | float) and not isinstance(expected, bool):
        expected = json.dumps(expected)
    if isinstance(given, str) and isinstance(expected, str) and ("stdin" in test or not entry_point):
        return [StreamTest(stdin=given, expected=expected)], ""
    if "input" not in test:
        raise PlainValueError("it has no args, input, stdin or call")
    if isinstance(given, Mapping) and not any(key.startswith("$") for key in given):
        return [_call([], given, expected)], ""
    return [_call(given, {}, expected)], ""


def _is_lines(given: Sequence[Json]) -> bool:
    return bool(given) and all(isinstance(line, str) for line in given)


def _joined(lines: Json) -> str:
    return lines if isinstance(lines, str) else "\n".join(str(line) for line in cast("Sequence[Json]", lines))


def _call(args: Json, kwargs: Json, expected: Json) -> CallTest:
    if isinstance(args, Mapping) and not any(key.startswith("$") for key in args):
        args, kwargs = [], args
    if not isinstance(kwargs, Mapping):
        raise PlainValueError("kwargs must be a map")
    named = {name: read_value(value) for name, value in kwargs.items()}
    return CallTest(args=_arguments(args), kwargs=named, expected=read_value(expected))


def _arguments(given: Json) -> tuple[object, ...]:
    """A list is all arguments, anything else is the only one."""
    return tuple(map(read_value, given)) if isinstance(given, list) else (read_value(given),)


def _asserted(code: str, entry_point: str) -> tuple[list[CallTest], str]:
    calls = read_assertions(f"assert {code.strip()}" if _is_comparison(code) else code, entry_point)
    names = {call.name for call in calls} - {"candidate"}
    if len(names) > 1:
        raise PlainValueError(f"assertions on several functions: {', '.join(sorted(names))}")
    return [_of_assertion(call) for call in calls], names.pop() if names else ""


def _is_comparison(code: str) -> bool:
    """Whether it is `f(1) == 2` alone, an assertion without its word."""
    try:
        return isinstance(ast.parse(code.strip(), mode="eval").body, ast.Compare)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _of_assertion(call: AssertedCall) -> CallTest:
    return CallTest(
        args=call.args, kwargs=call.kwargs, expected=call.expected, check=call.check, absolute=call.absolute
    )


def _called(text: str) -> tuple[str, tuple[object, ...], Mapping[str, object]]:
    parsed = ast.parse(text.strip(), mode="eval").body
    (call,) = read_assertions(f"assert {ast.unparse(parsed)}", "")
    return call.name, call.args, call.kwargs
