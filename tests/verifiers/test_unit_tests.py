"""Programs against tests: gold, near misses, and everything that hostile programs try."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.sandboxes import (
    SandboxError,
    Sandboxes,
    SandboxLimits,
    SandboxProfile,
    SandboxUnavailableError,
    open_sandboxes,
)
from rollwright.verifiers import AnswerRule, UnitTestRule, UnitTestVerifier, VerifierSetupError
from rollwright.verifiers.call_program import PlainValueError, read_value, write_value
from rollwright.verifiers.code_text import final_code
from rollwright.verifiers.equality import ValueRule, same_value
from rollwright.verifiers.program_running import PRELOADED
from tests.cases import method_fixture
from tests.verifiers.hostile_programs import FUNCTION_ATTACKS, PROGRAM_ATTACKS
from tests.verifiers.submissions import submitted, verdict_of

RULE = AnswerRule(reasoning="opened_in_output")
ADD = {
    "entry_point": "add",
    "tests": [{"args": [1, 2], "expected": 3}, {"args": [0, 1], "expected": 1}, {"args": [-5, 2], "expected": -3}],
    "wall_s": 30.0,
}
SUM = {
    "tests": [
        {"stdin": "1 2\n", "expected": "3"},
        {"stdin": "5 -2", "expected": "3\n"},
        {"stdin": "7", "expected": "7"},
    ]
}
RIGHT = "def add(a, b):\n    return a + b\n"


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Sandboxes]:
    try:
        pool = open_sandboxes(SandboxProfile(limits=SandboxLimits(memory_bytes=2**29), preload=PRELOADED))
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def verifier(sandboxes: Sandboxes) -> UnitTestVerifier:
    return UnitTestVerifier(rule=RULE, sandboxes=sandboxes)


def judged(verifier: UnitTestVerifier, text: str, info: Any = ADD, **more):
    return verdict_of(verifier, submitted(text, "tests", info=info, **more))


def components(verdict) -> dict[str, float]:
    return {part.name: part.value for part in verdict.components}


# ------------------------------------------------------------------------------------------------ gold and near miss


@pytest.mark.row("S378")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (RIGHT, 1.0),
        (f"Here:\n```python\n{RIGHT}```\nIt adds.", 1.0),
        ("def add(a, b):\n    print('adding', a, b)\n    return b + a\n", 1.0),
        ("class Solution:\n    def add(self, a, b):\n        return a + b\n", 1.0),
        ("add = lambda a, b: a + b", 1.0),
        ("def add(a, b):\n    return a - b\n", 0.0),
        ("def add(a, b):\n    return abs(a + b)\n", 0.0),
        ("def add(a, b):\n    return float(a + b)\n", 0.0),
        ("def add(a, b):\n    return str(a + b)\n", 0.0),
        ("def plus(a, b):\n    return a + b\n", 0.0),
        ("def add(a, b)\n    return a + b\n", 0.0),
        ("def add(a, b):\n    raise ValueError\n", 0.0),
        ("```python\n" + RIGHT, 0.0),
        (f"```js\n{RIGHT}```", 0.0),
        ("I do not know.", 0.0),
        ("", 0.0),
        (f"<think>```python\n{RIGHT}```</think>I do not know.", 0.0),
        ("def add(a, b):\n    return a + b\n\0", 0.0),
        (f"```python\n{RIGHT}```\n```python\ndef add(a, b):\n    return 0\n```", 0.0),
    ],
)
def test_a_function_passes_all_of_its_tests_or_fails(verifier: UnitTestVerifier, text: str, value: float) -> None:
    assert judged(verifier, text).outcome == value


def test_the_program_that_was_judged_is_told_for_metrics_of_variety(verifier: UnitTestVerifier) -> None:
    said, spaced = (judged(verifier, text).canonical for text in (RIGHT, f"```python\n{RIGHT}\n```"))
    assert said is not None and said.kind == "program" and said == spaced


@pytest.mark.parametrize("value", ["10**5000", "[a, -10**9000]", "{10**5000: b}"])
def test_a_number_too_long_to_write_is_a_wrong_value(verifier: UnitTestVerifier, value: str) -> None:
    assert judged(verifier, f"def add(a, b):\n    return {value}\n").outcome == 0.0


@pytest.mark.parametrize("between", ["' ' * 70_000 + '\\n'", "'\\n' * 70_000"])
def test_output_behind_a_long_gap_counts_as_much_as_what_stands_before(verifier, between: str) -> None:
    text = f"print(str(sum(map(int, input().split()))) + {between} + 'PASSED')"
    assert judged(verifier, text, SUM).outcome == 0.0


@pytest.mark.row("S378")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("print(sum(map(int, input().split())))", 1.0),
        ("import sys\nfor line in sys.stdin:\n    print(sum(map(int, line.split())), end='')", 1.0),
        ("if __name__ == '__main__':\n    print(sum(map(int, input().split())))", 1.0),
        ("import os\nos.write(1, str(sum(map(int, input().split()))).encode())", 1.0),
        ("print(3)", 0.0),
        ("print('the sum is', sum(map(int, input().split())))", 0.0),
        ("print(sum(map(int, input().split())))\nraise SystemExit(1)", 0.0),
        ("print(sum(map(int, input().split())))\nprint('PASSED')", 0.0),
        ("", 0.0),
    ],
)
def test_a_program_that_reads_and_prints_is_judged_by_its_output(verifier, text: str, value: float) -> None:
    assert judged(verifier, text, SUM).outcome == value


def test_a_fraction_is_paid_where_asked_and_the_counts_are_kept(sandboxes: Sandboxes) -> None:
    verifier = UnitTestVerifier(rule=RULE, sandboxes=sandboxes, tests=UnitTestRule(scoring="fraction"))
    found = judged(verifier, "def add(a, b):\n    return abs(a + b)\n")
    assert found.outcome == pytest.approx(2 / 3)
    assert components(found) == {"passed": 2.0, "total": 3.0, "flaky": 0.0, "failed.wrong": 1.0}
    everything = UnitTestVerifier(rule=RULE, sandboxes=sandboxes)
    assert verifier.revision != everything.revision
    fixture = method_fixture("M115.a")
    fixture = method_fixture("M115.a")
    info = {"tests": [{"args": [n], "expected": n} for n in range(fixture.input["total"])]}
    for place, passed in enumerate(fixture.input["passed"]):
        solution = f"def least(n):\n    return n if n < {passed} else None\n"
        assert judged(verifier, solution, info).outcome == pytest.approx(fixture.expect["fraction"][place])
        assert judged(everything, solution, info).outcome == fixture.expect["all_or_nothing"][place]


@pytest.mark.row("S378")
def test_a_suite_that_is_repeated_pays_only_what_passes_every_time(sandboxes: Sandboxes) -> None:
    flaky = "import os\ndef add(a, b):\n    return a + b + (os.urandom(1)[0] < 100)\n"
    info = {**ADD, "tests": ADD["tests"] * 3}
    verifier = UnitTestVerifier(rule=RULE, sandboxes=sandboxes, tests=UnitTestRule(scoring="fraction", repeats=3))
    found = judged(verifier, flaky, info)
    assert isinstance(found.outcome, float)
    assert found.outcome < 1
    assert components(found)["flaky"] > 0
    steady = judged(verifier, RIGHT, info)
    assert (steady.outcome, components(steady)["flaky"]) == (1.0, 0.0)


@pytest.mark.row("S378")
@pytest.mark.parametrize(
    ("body", "finding", "kind"),
    [
        ("while True: pass", "program_timeout", "timeout"),
        ("import time; time.sleep(60)", "program_timeout", "timeout"),
        ("return bytearray(2**32)", None, "memory_limit"),
        ("return add(a, b)", None, "raised"),
        ("return 10 ** 10 ** 9", "program_timeout", "timeout"),
        ("return 'x' * 50_000_000", None, "not_plain"),
        ("return [0] * 5_000_000", None, "not_plain"),
        ("x = []; x.append(x); return x", None, "not_plain"),
        ("return 2 ** 2_000_000", None, "not_plain"),
        ("return object()", None, "not_plain"),
        ("return lambda: 3", None, "not_plain"),
        ("print('x' * 10_000_000); return 0", None, "wrong"),
    ],
)
def test_time_and_memory_of_a_test_are_bounded(verifier: UnitTestVerifier, body: str, finding, kind: str) -> None:
    wall_s = 0.5 if kind == "timeout" else 30.0
    found = judged(verifier, f"def add(a, b):\n    {body}\n", {**ADD, "wall_s": wall_s})
    assert (found.outcome, found.finding) == (0.0, finding)
    assert components(found)[f"failed.{kind}"] == 1.0


def test_memory_of_a_task_stands_below_the_sandboxes_own(verifier: UnitTestVerifier) -> None:
    hungry = "def add(a, b):\n    x = bytearray(150 * 2**20)\n    return a + b\n"
    assert judged(verifier, hungry, {**ADD, "memory_bytes": 2**28}).outcome == 1.0
    assert judged(verifier, hungry, {**ADD, "memory_bytes": 2**27}).outcome == 0.0


# ---------------------------------------------------------------------------------------------------------- attacks

TRIED_ELSEWHERE = {
    "exit at once", "exit for good", "exit in the call", "exit by exception", "kill itself", "equal to all, an int",
    "equal to all, an object", "a class that lies", "a bool that lies", "a mock", "printed verdicts", "printed errors",
    "patched JSON", "patched open", "patched types", "patched assertions", "patched exceptions",
    "expected from frames", "expected from memory", "expected from the environment", "expected from files",
    "not a number", "the arguments",
}  # fmt: skip
"""The same ways are tried by the programs of `tests/data/attacks/verifiers`, by default."""


@pytest.mark.row("S378")
@pytest.mark.parametrize(
    "attack",
    [pytest.param(name, marks=pytest.mark.slow if name in TRIED_ELSEWHERE else ()) for name in FUNCTION_ATTACKS],
)
def test_no_attack_on_the_tests_of_a_function_is_paid(verifier: UnitTestVerifier, attack: str) -> None:
    assert judged(verifier, FUNCTION_ATTACKS[attack], {**ADD, "wall_s": 1.0}).outcome == 0.0


@pytest.mark.parametrize("attack", PROGRAM_ATTACKS)
def test_no_attack_on_the_tests_of_a_program_is_paid(verifier: UnitTestVerifier, attack: str) -> None:
    assert judged(verifier, PROGRAM_ATTACKS[attack], {**SUM, "wall_s": 1.0}).outcome == 0.0


# ------------------------------------------------------------------------------------------------------ other faults


class Broken:
    """Sandboxes that fail so many times before they work."""

    def __init__(self, failures: Sequence[bool], within: Sandboxes) -> None:
        self._failures = list(failures)
        self._within = within
        self.num_taken = 0
        self.profile = within.profile
        self.profile_id = within.profile_id
        self.max_open = within.max_open

    @asynccontextmanager
    async def take(self):
        self.num_taken += 1
        if self._failures and self._failures.pop(0):
            raise SandboxError("no memory for a sandbox")
        async with self._within.take() as sandbox:
            yield sandbox

    def close(self) -> None:
        self._within.close()


@pytest.mark.row("S378")
def test_a_failed_sandbox_is_tried_again_and_never_a_failed_test(sandboxes: Sandboxes) -> None:
    once = UnitTestVerifier(rule=RULE, sandboxes=Broken([True], sandboxes))
    assert judged(once, RIGHT).outcome == 1.0
    always = UnitTestVerifier(rule=RULE, sandboxes=Broken([True] * 9, sandboxes))
    assert judged(always, RIGHT).outcome == "infrastructure"
    only_under_it = UnitTestVerifier(rule=RULE, sandboxes=Broken([True, True], sandboxes))
    assert judged(only_under_it, RIGHT).outcome == 0.0


@pytest.mark.parametrize(
    "info",
    [
        {},
        {"tests": []},
        {"tests": [{"args": [1]}]},
        {"tests": [{"expected": 1}]},
        {"tests": ["x = 3"]},
        {"tests": ["assert add(1, 2) == 3", {"stdin": "1", "expected": "1"}]},
        {"tests": [{"stdin": "1", "expected": "1"}], "language": "cobol"},
        {"tests": [{"args": [1, 2], "expected": 3}], "language": "sh"},
        {"tests": [{"args": [{"$no": 1}], "expected": 3}]},
        {"tests": ["assert add(1, 2) == other(3)"], "entry_point": "add"},
        {"tests": ["assert " + "(" * 5000 + "1" + ")" * 5000]},
    ],
)
def test_tests_that_cannot_be_read_give_no_score(verifier: UnitTestVerifier, info) -> None:
    assert judged(verifier, RIGHT, info).outcome == "grader_error"


def test_the_same_verdicts_in_any_order_and_beside_each_other(verifier: UnitTestVerifier) -> None:
    texts = [RIGHT, "def add(a, b):\n    return 0\n", "import os\nos._exit(0)", RIGHT]

    async def together():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(verifier.verify([submitted(t, "tests", info=ADD)])) for t in texts]
        return [task.result()[0] for task in tasks]

    one_by_one = [judged(verifier, text) for text in reversed(texts)][::-1]
    assert asyncio.run(together()) == one_by_one
    assert [v.outcome for v in one_by_one] == [1.0, 0.0, 0.0, 1.0]


def test_a_suite_that_never_runs_is_refused() -> None:
    with pytest.raises(VerifierSetupError, match="repeats"):
        UnitTestRule(repeats=0)


# ------------------------------------------------------------------------------------------------- languages and forms


@pytest.mark.row("S441")
@pytest.mark.parametrize(
    ("language", "right", "wrong"),
    [
        ("python", "print(sum(map(int, input().split())))", "print(input())"),
        ("sh", "set -- $(cat)\ns=0\nfor x; do s=$((s + x)); done\necho $s", "echo 3; exit 0"),
        (
            "cpp",
            "#include <iostream>\nint main() { int s = 0, x; while (std::cin >> x) s += x; std::cout << s; }",
            "int main() { return 0 }",
        ),
    ],
)
def test_a_contest_problem_is_judged_in_several_languages(verifier, sandboxes, language, right, wrong) -> None:
    if language == "cpp" and not has_compiler(sandboxes):
        pytest.skip("no C++ compiler in the sandbox")
    info = {**SUM, "language": language, "wall_s": 30.0, "memory_bytes": 2**27}
    assert judged(verifier, f"```{language}\n{right}\n```", info).outcome == 1.0
    assert judged(verifier, f"```{language}\n{wrong}\n```", info).outcome == 0.0


@pytest.mark.row("S441")
@pytest.mark.parametrize(
    ("language", "hang", "hog"),
    [
        ("python", "while True: pass", "x = 'x' * 2**30"),
        ("sh", "while :; do :; done", "x=$(head -c 150000000 /dev/zero | tr '\\0' x); echo ${#x}"),
    ],
)
def test_time_and_memory_are_limited_in_every_language(verifier, language: str, hang: str, hog: str) -> None:
    info = {**SUM, "language": language, "wall_s": 0.5, "memory_bytes": 2**27}
    slow = judged(verifier, hang, info)
    assert (slow.outcome, slow.finding) == (0.0, "program_timeout")
    assert judged(verifier, hog, {**info, "wall_s": 30.0}).outcome == 0.0


def has_compiler(sandboxes: Sandboxes) -> bool:
    async def look() -> bool:
        async with sandboxes.take() as sandbox:
            return (await sandbox.shell("command -v g++")).status == "ok"

    return asyncio.run(look())


@pytest.mark.parametrize(
    "tests",
    [
        [{"args": [1, 2], "expected": 3}],
        [{"kwargs": {"a": 1, "b": 2}, "expected": 3}],
        [{"args": {"a": 1, "b": 2}, "expected": 3}],
        [{"input": [1, 2], "output": 3}],
        [{"input": {"a": 1, "b": 2}, "expected_output": 3}],
        [{"input": "1\n2", "output": "3", "testtype": "functional"}],
        [{"call": "add(1, b=2)", "expected": 3}],
        [[[1, 2], 3]],
        ["assert add(1, 2) == 3"],
        ["assert 3 == add(1, 2)", "assert not add(1, -1)", "assert add(1, 1)"],
        "def check(candidate):\n    assert candidate(1, 2) == 3\n    assert abs(candidate(0.1, 0.2) - 0.3) < 1e-6\n",
        {"inputs": [[1, 2], [2, 2]], "outputs": [3, 4]},
    ],
)  # fmt: skip
def test_every_form_of_a_test_is_read(verifier: UnitTestVerifier, tests) -> None:
    info = {"tests": tests, "entry_point": "add"}
    assert judged(verifier, RIGHT, info).outcome == 1.0
    assert judged(verifier, "def add(a, b):\n    return a * b - 7\n", info).outcome == 0.0


def test_the_function_is_named_by_the_task_its_tests_its_question_or_alone(verifier: UnitTestVerifier) -> None:
    calls = {"tests": ADD["tests"]}
    helper = "def help(x):\n    return x\n"
    assert judged(verifier, RIGHT, calls).outcome == 1.0
    assert judged(verifier, helper + RIGHT, calls).outcome == 0.0
    assert judged(verifier, helper + RIGHT, calls, question="Write\n\ndef add(a, b):\n    ...").outcome == 1.0
    assert judged(verifier, helper + RIGHT, {"tests": ["assert add(1, 2) == 3"]}).outcome == 1.0


def test_a_prelude_stands_before_the_solution(verifier: UnitTestVerifier) -> None:
    info = {**ADD, "prelude": "from operator import add as plus\n"}
    assert judged(verifier, "def add(a, b):\n    return plus(a, b)\n", info).outcome == 1.0


def test_arguments_and_values_of_every_plain_type_pass_the_wall(verifier: UnitTestVerifier) -> None:
    values = [
        None, True, 2**100, -0.5, "x\u2028\U0001f600", [1, [2]], {"a": {"b": 1}}, {"$tuple": [1, "a"]},
        {"$set": [1, 2]}, {"$dict": [[1, "a"], [{"$tuple": [1]}, "b"]]}, {"$bytes": "00ff"}, {"$float": "inf"},
    ]  # fmt: skip
    info = {"entry_point": "same", "tests": [{"args": [value], "expected": value} for value in values]}
    assert judged(verifier, "def same(x):\n    return x\n", info).outcome == 1.0


# ------------------------------------------------------------------------------------------------------ plain values

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.sets(st.integers() | st.text(max_size=3), max_size=3)
    ),
    max_leaves=8,
)


@given(plain)
def test_a_plain_value_is_written_and_read_as_itself(value) -> None:
    assert same_value(read_value(write_value(value)), value, ValueRule())


@pytest.mark.parametrize(
    ("given_value", "expected", "is_same"),
    [
        (1, 1, True), (True, 1, False), (1, True, False), (1.0, 1, False), (1, 1.0, True), (True, 1.0, False),
        ("1", 1, False), (0.1 + 0.2, 0.3, True), (0.3001, 0.3, False), (float("nan"), float("nan"), True),
        (10**400, 1.0, False),
        ([1], [1], True), ((1,), [1], False), ([1], (1,), False), ([1, 2], [2, 1], False), ([True], [1], False),
        ({1}, {1}, True), ({True}, {1}, False), ({1: 1}, {True: 1}, False), ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False), (None, 0, False), ("", None, False), (b"a", "a", False),
        (1 + 0j, 1, False),
    ],
)  # fmt: skip
def test_values_are_the_same_by_type_and_value(given_value, expected, is_same: bool) -> None:
    assert same_value(given_value, expected, ValueRule()) is is_same


def test_tuples_are_lists_where_declared() -> None:
    assert same_value((1, [2, (3,)]), [1, (2, [3])], ValueRule(sequences="alike"))


@pytest.mark.parametrize(
    "written",
    [{"$no": 1}, {"$tuple": 3}, {"$int": "zz"}, {"$set": [[1]]}, {"$dict": [1]}, {"$bytes": 7}, {"$complex": [1]}],
)
def test_a_form_that_is_none_is_refused(written) -> None:
    with pytest.raises(PlainValueError):
        read_value(written)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("x = 1", "x = 1"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```python\nx = 1\n```\nthen\n```py\nx = 2\n```", "x = 2\n"),
        ("~~~python\n```\n~~~", "```\n"),
        ("```python\nx = 1\n```\n```text\noutput\n```", "x = 1\n"),
        ("```text\nx\n```", None),
        ("```python\n\n```", None),
        ("```python\nx = 1", None),
        (" ", None),
    ],
)
def test_the_last_whole_block_of_the_language_is_the_program(text: str, code: str | None) -> None:
    assert final_code(text, "python") == code


# ------------------------------------------------------------------------------------------------ faults of the task


@pytest.mark.parametrize(
    "fault",
    [
        {"prelude": "def ("},
        {"prelude": "import math\nreturn return"},
        {"wall_s": -5},
        {"wall_s": 0},
        {"wall_s": 10**400},
        {"memory_bytes": 10**400},
        {"tests": [{"call": "add(", "expected": 3}]},
        {"tests": [{"call": "add(1, 2); add", "expected": 3}]},
    ],
)
def test_a_task_that_nothing_could_pass_is_bad_gold_and_no_score(verifier, fault):
    verdict = judged(verifier, RIGHT, info={**ADD, **fault})
    assert verdict.outcome == "grader_error"
    assert "bad gold" in verdict.evidence


def test_a_prelude_that_a_solution_completes_is_no_fault(verifier):
    for prelude, code in (
        ('def add(a, b):\n    """The sum."""\n', "    return a + b\n"),
        ("def add(a, b):", "    return a + b\n"),
        ("import math\n\ndef one():\n    return 1\n\n", RIGHT),
    ):
        assert judged(verifier, f"```python\n{code}```", info={**ADD, "prelude": prelude}).outcome == 1.0


@pytest.mark.parametrize(
    ("prelude", "told"),
    [
        ("import no_such_module_of_the_task\n", "ModuleNotFoundError"),
        ("import math\nmath.no_such_name\n", "AttributeError"),
        ("import no_such_module_of_the_task\n\ndef add(a, b):", "ModuleNotFoundError"),
        ("import os\nos.kill(os.getpid(), 9)\n", ""),
        ("while True:\n    pass\n", "timeout"),
    ],
)
@pytest.mark.parametrize("info", [ADD, SUM], ids=["calls", "streams"])
def test_a_prelude_that_fails_by_itself_is_bad_gold_and_no_score(verifier, info, prelude: str, told: str) -> None:
    limited = {**info, "prelude": prelude, "wall_s": 1.0}
    for solution in (RIGHT, "    return a + b\n", "raise ValueError\n"):
        verdict = judged(verifier, f"```python\n{solution}```", limited)
        assert verdict.outcome == "grader_error"
        assert "bad gold" in verdict.evidence and "prelude fails by itself" in verdict.evidence
        assert told in verdict.evidence


def test_a_solution_that_fails_behind_a_sound_prelude_has_failed(verifier: UnitTestVerifier) -> None:
    for prelude, solution in (
        ("import math\n", "import no_such_module_of_the_policy\n"),
        ("import math\n", "def add(a, b):\n    return a - b\n"),
        ("def add(a, b):", "    return a - b\n"),
        ("try:\n    import no_such_module_of_the_task\n", "except KeyError:\n    pass\n"),
        ("first = 1\n", "import os\nos._exit(0)\n"),
    ):
        assert judged(verifier, f"```python\n{solution}```", {**ADD, "prelude": prelude}).outcome == 0.0
    reading = {**SUM, "prelude": "given = input()\n"}
    assert judged(verifier, "```python\nprint(given)\n```", reading).outcome == 0.0
    assert judged(verifier, "```python\nprint(sum(map(int, given.split())))\n```", reading).outcome == 1.0


def test_a_prelude_is_run_alone_once_and_only_where_a_solution_failed(sandboxes: Sandboxes) -> None:
    counting = Broken([], sandboxes)
    verifier = UnitTestVerifier(rule=RULE, sandboxes=counting)
    info = {**ADD, "prelude": "import math\n"}
    assert judged(verifier, RIGHT, info).outcome == 1.0
    assert counting.num_taken == 1
    for _ in range(3):
        assert judged(verifier, "def add(a, b):\n    return a\n", info).outcome == 0.0
    assert counting.num_taken == 1 + 3 + 1
