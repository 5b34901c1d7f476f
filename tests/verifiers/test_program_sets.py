"""Programming tasks in published shapes, of our own content: imported, then judged by their own tests."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from rollwright.record import Passage, Submission, Task
from rollwright.sandboxes import Sandboxes, SandboxProfile, SandboxUnavailableError, open_sandboxes
from rollwright.tasks import TaskError, make_task, payload_of
from rollwright.tasks.program_sets import Window, import_programs
from rollwright.verifiers import AnswerRule, GoldError, UnitTestRule, UnitTestVerifier
from rollwright.verifiers.program_running import PRELOADED
from rollwright.verifiers.reference_values import with_reference_values
from tests.verifiers.submissions import verdict_of

CLAMP = {
    "task_id": "own/0",
    "prompt": (
        'from typing import List\n\ndef clamp(values: List[int], most: int) -> List[int]:\n    """Cut at most."""\n'
    ),
    "entry_point": "clamp",
    "canonical_solution": "    return [min(value, most) for value in values]\n",
    "test": (
        "METADATA = {}\n\n"
        "def check(candidate):\n    assert candidate([1, 5], 3) == [1, 3]\n    assert candidate([], 3) == []\n"
    ),
}
RIGHT = "def clamp(values: List[int], most: int) -> List[int]:\n    return [v if v < most else most for v in values]\n"
NEAR = "def clamp(values, most):\n    return [v if v < 5 else most for v in values]\n"


@pytest.fixture(scope="module")
def sandboxes() -> Iterator[Sandboxes]:
    try:
        pool = open_sandboxes(SandboxProfile(preload=PRELOADED))
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    yield pool
    pool.close()


@pytest.fixture(scope="module")
def verifier(sandboxes: Sandboxes) -> UnitTestVerifier:
    return UnitTestVerifier(rule=AnswerRule(), sandboxes=sandboxes)


def imported(tmp_path: Path, rows: list[dict[str, Any]], format: Any, **more: Any):
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    settings: dict[str, Any] = {"sha256": digest, "license": "LicenseRef-own", "held_out_share": 1.0}
    return import_programs(path, format=format, **settings | more)


def outcome(verifier: UnitTestVerifier, task: Task, code: str) -> float | str:
    submission = Submission(
        trajectory_id="t000001-00-0",
        task=task,
        terminal_reason="model_end",
        passages=(Passage(actor="agent", kind="policy", text=f"```python\n{code}\n```"),),
        artifacts={},
    )
    return verdict_of(verifier, submission).outcome


@pytest.mark.row("S442")
def test_a_function_of_humaneval_shape_passes_its_own_tests(verifier: UnitTestVerifier, tmp_path: Path) -> None:
    (task,) = imported(tmp_path, [CLAMP], "humaneval").held_out
    assert outcome(verifier, task, RIGHT) == 1.0
    assert outcome(verifier, task, NEAR) == 1.0  # The plus-tests below find it.
    assert outcome(verifier, task, "def clamp(values, most):\n    return values\n") == 0.0
    assert outcome(verifier, task, "def check(candidate): pass\ndef clamp(values, most): raise SystemExit(0)") == 0.0


@pytest.mark.row("S442")
def test_plus_tests_get_their_values_from_the_reference_in_a_sandbox(verifier, sandboxes, tmp_path: Path) -> None:
    row = {**CLAMP, "base_input": [[[1, 5], 3]], "plus_input": [[[4], 3], [[-1, 10**20], 2]]}
    (task,) = imported(tmp_path, [row], "evalplus").held_out
    assert outcome(verifier, task, RIGHT) == "grader_error"  # Inputs alone are no tests.
    filled = asyncio.run(with_reference_values(payload_of(task), sandboxes))
    task = make_task(filled, source="evalplus", revision=task.revision, split=task.split)
    tests = cast("list[dict[str, object]]", filled.info["tests"])
    assert [test["expected"] for test in tests] == [[1, 3], [3], [-1, 2]]
    assert outcome(verifier, task, RIGHT) == 1.0
    assert outcome(verifier, task, NEAR) == 0.0


def test_a_reference_that_fails_is_bad_data(sandboxes, tmp_path: Path) -> None:
    row = {**CLAMP, "canonical_solution": "    return values / most\n", "base_input": [[[1], 2]], "plus_input": []}
    (task,) = imported(tmp_path, [row], "evalplus").held_out
    with pytest.raises(GoldError, match="the reference fails on input 0: raised"):
        asyncio.run(with_reference_values(payload_of(task), sandboxes))


@pytest.mark.row("S442")
def test_assertions_of_mbpp_shape_are_read_and_never_run(verifier: UnitTestVerifier, tmp_path: Path) -> None:
    row = {
        "task_id": 1,
        "text": "Write a function that gives the smallest and the largest number.",
        "code": "def ends(xs):\n    return min(xs), max(xs)",
        "test_list": ["assert ends([3, 1, 2]) == (1, 3)", "assert ends([5]) == (5, 5)"],
        "challenge_test_list": ["assert ends([-1, -2]) == (-2, -1)"],
        "test_setup_code": "",
    }
    (task,) = imported(tmp_path, [row], "mbpp").held_out
    assert "The function passes this test" in payload_of(task).messages[0].text
    assert outcome(verifier, task, payload_of(task).answer) == 1.0
    assert outcome(verifier, task, "def ends(xs):\n    return [min(xs), max(xs)]") == 0.0
    assert outcome(verifier, task, "def ends(xs):\n    return 0, max(xs)") == 0.0
    (task,) = imported(tmp_path, [{**row, "test_list": ["assert ends(read()) == (1, 3)"]}], "mbpp").held_out
    assert outcome(verifier, task, payload_of(task).answer) == "grader_error"


@pytest.mark.row("S443")
@pytest.mark.parametrize("format", ["apps", "taco"])
def test_apps_and_taco_shapes_come_as_streams_or_functions(verifier, tmp_path: Path, format: str) -> None:
    streams = {"inputs": ["2\n1 2\n", "1\n7\n"], "outputs": ["3\n", "7\n"]}
    calls = {"fn_name": "twice", "inputs": [[1], [[1, 2]]], "outputs": [2, [1, 2, 1, 2]]}
    rows = [
        {"problem_id": 1, "question": "Sum.", "input_output": json.dumps(streams), "solutions": '["print(3)"]'},
        {"problem_id": 2, "question": "Twice.", "input_output": json.dumps(calls), "starter_code": "def twice(x):"},
    ]
    source = imported(tmp_path, rows, format)
    assert source.revision.startswith(f"{format}:")
    assert source.revision.endswith(":LicenseRef-own")
    stream, call = source.held_out
    assert outcome(verifier, stream, "input()\nprint(sum(map(int, input().split())))") == 1.0
    assert outcome(verifier, stream, "print(3)") == 0.0
    assert outcome(verifier, call, "class Solution:\n    def twice(self, x):\n        return x * 2") == 1.0
    assert outcome(verifier, call, "def twice(x):\n    return x + x if x != 1 else 3") == 0.0


@pytest.mark.row("S443")
def test_the_frozen_scoring_rule_of_a_pool_is_all_tests_or_their_share(sandboxes, tmp_path: Path) -> None:
    tests = {"input": ["1\n", "2\n"], "output": ["1\n", "4\n"]}
    row = {
        "name": "own_a",
        "description": "Print the square.",
        "public_tests": tests,
        "private_tests": {"input": ["3\n"], "output": ["9\n"]},
        "time_limit": {"seconds": 2, "nanos": 500_000_000},
        "memory_limit_bytes": 256_000_000,
    }
    (task,) = imported(tmp_path, [row], "codecontests").held_out
    assert payload_of(task).info["wall_s"] == 2.5
    fraction = UnitTestVerifier(rule=AnswerRule(), sandboxes=sandboxes, tests=UnitTestRule(scoring="fraction"))
    every = UnitTestVerifier(rule=AnswerRule(), sandboxes=sandboxes)
    assert outcome(every, task, "print(int(input()) ** 2)") == 1.0
    assert outcome(every, task, "print(1)") == 0.0
    assert outcome(fraction, task, "print(1)") == pytest.approx(1 / 3)


def lcb(question: str, date: str, **more: Any) -> dict[str, Any]:
    public = [{"input": "3\n", "output": "6\n", "testtype": "stdin"}]
    private = [{"input": "10\n", "output": "20\n", "testtype": "stdin"}]
    return {
        "question_content": question,
        "question_id": question,
        "contest_date": f"{date}T00:00:00",
        "public_test_cases": json.dumps(public),
        "private_test_cases": json.dumps(private),
        "metadata": "{}",
        "starter_code": "",
    } | more


@pytest.mark.row("S440")
def test_a_version_window_decides_which_tasks_count_and_stands_in_the_revision(verifier, tmp_path: Path) -> None:
    rows = [lcb("Old: twice.", "2024-06-01"), lcb("New: twice.", "2024-09-01"), lcb("Newer: twice.", "2025-01-31")]
    window = Window(first="2024-08-01", last="2025-01-31")
    source = imported(tmp_path, rows, "livecodebench", window=window)
    assert [payload_of(task).info["contest_date"] for task in source.held_out] == ["2024-09-01", "2025-01-31"]
    assert source.revision.endswith(":2024-08-01..2025-01-31")
    for task in source.held_out:
        assert outcome(verifier, task, "print(2 * int(input()))") == 1.0
        assert outcome(verifier, task, "print(6)") == 0.0
    with pytest.raises(TaskError, match="no task from 2026"):
        imported(tmp_path, rows, "livecodebench", window=Window(first="2026-01-01"))
    with pytest.raises(TaskError, match="the first first"):
        Window(first="2025-01-01", last="2024-01-01")


@pytest.mark.row("S440")
def test_functional_tests_of_livecodebench_have_a_value_a_line(verifier, tmp_path: Path) -> None:
    tests = json.dumps([{"input": "[1, 2]\n3", "output": "[3, 6]", "testtype": "functional"}])
    row = lcb(
        "Scale.", "2024-09-01", public_test_cases=tests, private_test_cases="[]", metadata='{"func_name": "scale"}'
    )
    (task,) = imported(tmp_path, [row], "livecodebench").held_out
    assert (
        outcome(verifier, task, "class Solution:\n    def scale(self, xs, k):\n        return [x * k for x in xs]")
        == 1.0
    )
    assert outcome(verifier, task, "class Solution:\n    def scale(self, xs, k):\n        return [3]") == 0.0


@pytest.mark.row("S443")
def test_another_file_another_license_and_rows_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    for more, said in (
        ({"sha256": "0" * 64}, "another file"),
        ({"license": "proprietary"}, "license 'proprietary' is none of"),
        ({"window": Window()}, "have no dates"),
    ):
        with pytest.raises(TaskError, match=said):
            imported(tmp_path, [CLAMP], "humaneval", **more)
    with pytest.raises(TaskError, match="no program format"):
        imported(tmp_path, [CLAMP], "bigcode")
    for format, row, said in (
        ("humaneval", {"prompt": "x"}, "line 1: entry_point is missing"),
        ("mbpp", {"text": "x", "test_list": []}, "it has no tests"),
        ("apps", {"question": "x", "input_output": "[]"}, "no map of inputs"),
        ("codecontests", {"description": "x"}, "it has no tests"),
        (
            "livecodebench",
            lcb("x", "2024-09-01", private_test_cases="eJxrYJmaz8gABhE"),
            "a pickled one is never opened",
        ),
        ("evalplus", CLAMP, "base_input is missing"),
    ):
        with pytest.raises(TaskError, match=said):
            imported(tmp_path, [row], format)
