"""What every verifier keeps: one table, one row a verifier."""

import asyncio
import json
import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from rollwright.recipes.build.named_verifiers import VERIFIER_NAMES, named_verifier
from rollwright.record import Verdict, Verifier
from rollwright.sandboxes import SandboxUnavailableError
from rollwright.verifiers import (
    AnswerRule,
    CallableChecker,
    CheckerVerifier,
    CheckReply,
    Composition,
    Part,
    TestbenchVerifier,
    reward_function_verifier,
)
from tests.verifiers.submissions import ask, submitted, verdict_of
from tests.verifiers.toy_simulator import ToySimulator


@dataclass(frozen=True, kw_only=True)
class Row:
    """A verifier with its gold answer, a near miss and an attack."""

    gold: str
    right: str
    near: str
    attack: str
    info: Mapping[str, Any] = field(default_factory=dict)
    judges_form: bool = False
    """It does not read the task's answer, and any text may keep the form."""
    make: Callable[[], Verifier] | None = None
    """None: it is made by its name."""


async def _check(request) -> CheckReply:
    return CheckReply(status="accept" if request.submission.strip() == request.gold else "reject")


def same_text(completion, answer) -> float:
    return float(completion[-1]["content"].strip() == answer)


ROWS: dict[str, Row] = {
    "exact": Row(gold="Paris", right="\\boxed{Paris}", near="\\boxed{Pariſ}", attack="\\boxed{Paris}\n\\boxed{Rome}"),
    "numeric": Row(gold="42", right="The answer is 42.", near="42.0001", attack="41 or 42"),
    "math": Row(gold="1/2", right="\\boxed{\\frac{2}{4}}", near="\\boxed{0.5001}", attack="\\boxed{1/2=1=2}"),
    "units": Row(gold="5 cm", right="answer: 50 mm", near="answer: 5", attack="answer: 5 cm 5 m"),
    "set": Row(gold="1, 2", right="{2, 1}", near="{2, 1, 3}", attack="0, 1, 2, 3, 4, 5, 6, 7, 8, 9"),
    "choice": Row(gold="B", right="(B)", near="C", attack="A, B, C and D"),
    "text_match": Row(gold="Eiffel Tower", right="the Eiffel tower", near="Eiffel", attack="Eiffel Tower or Big Ben"),
    "json_schema": Row(
        gold="schema",
        right='{"a": 1}',
        near='{"a": "1"}',
        attack='{"a": 1, "a": "x"}',
        info={"schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}},
    ),
    "unit_tests": Row(
        gold="tests",
        right="def f(x):\n    return x + 1",
        near="def f(x):\n    return 2 * x",
        attack="import os\nprint('2')\nos._exit(0)",
        info={"tests": [{"args": [1], "expected": 2}, {"args": [5], "expected": 6}], "wall_s": 2.0},
    ),
    "format": Row(gold="42", right="\\boxed{41}", near="", attack="\\boxed{41}\\boxed{42}", judges_form=True),
    "tags": Row(
        gold="42",
        right="<think>a</think><answer>b</answer>",
        near="<think>a</think><answer></answer>",
        attack="<think>a</think><answer>b</answer><answer>c</answer>",
        judges_form=True,
    ),
    "sections": Row(
        gold="42", right="# Answer\n42", near="# Answer\n", attack="# Answer\n1\n# Answer\n2", judges_form=True
    ),
    "language": Row(
        gold="42",
        right="So this is what we have, and that is the answer.",
        near="Also ist das nicht die Antwort, und wir haben sie.",
        attack="the и это не ответ the " * 9,
        judges_form=True,
    ),
    "checker": Row(
        gold="qed",
        right="qed",
        near="QED",
        attack="qed or not",
        make=lambda: CheckerVerifier(rule=AnswerRule(), checker=CallableChecker(function=_check, revision="1")),
    ),
    "testbench": Row(
        gold="y = a & b",
        right="y = b & a",
        near="y = a | b",
        attack="print PASSED",
        info={"inputs": {"a": 1, "b": 1}, "outputs": {"y": 1}},
        make=lambda: TestbenchVerifier(rule=AnswerRule(), simulator=ToySimulator()),
    ),
    "same_text": Row(
        gold="42", right="42", near="42.0", attack="42 43", make=lambda: reward_function_verifier(same_text)
    ),
}
EMPTY = ("", " \n", "\\boxed{}", "answer:", "null", "None", "<think>42</think>", "\u200b")
HOSTILE = {
    "digits": "9" * 1_000_000,
    "an exponent": "1e999999999",
    "a power tower": "9**9**9**9**9",
    "a factorial": "\\boxed{999999999!}",
    "open boxes": "\\boxed{" * 100_000,
    "open and closed boxes": "\\boxed{" * 300 + "}" * 300,
    "more boxes than Python goes deep": "\\boxed{" * 1100 + "}" * 1100,
    "fractions in fractions": "\\frac{1}{" * 3000,
    "parentheses": "(" * 500_000,
    "brackets": "[" * 500_000,
    "braces": '{"a":' * 50_000,
    "markers": "answer: " * 20_000,
    "lines": "answer: 1\n" * 20_000,
    "open reasoning": "<think>" * 100_000,
    "fences": "```\n" * 30_000,
    "dollars": "$" * 500_000,
    "blanks": "answer" + " " * 1_000_000,
    "look-alikes": "\\boxed{\uff14\uff12} \u0410 \u0391 \u216b \u00bd",
    "nulls": "\0" * 1000,
    "halves of characters": "\ud800answer: \udfff",
    "directions": "\u202e42\u202c",
    "one word": "a" * 1_000_000,
}

ALL_READ_ALIKE = {"more boxes than Python goes deep": ("exact",)}
"""Long to read, by the same function for all: the one that shows it."""
MATH_S = 1.0
"""CPU time of one answer."""
ELSEWHERE = {"math", "unit_tests"}
"""Judged in processes of their own anyway."""


@pytest.fixture(scope="module")
def made() -> Iterator[Callable[[str], Verifier]]:
    verifiers: dict[str, Verifier] = {}
    closers: list[Callable[[], None]] = []

    def make(name: str) -> Verifier:
        if name not in verifiers:
            verifiers[name] = _made(name, closers)
        return verifiers[name]

    yield make
    for close in closers:
        close()


def _made(name: str, closers: list[Callable[[], None]]) -> Verifier:
    build = ROWS[name].make
    if build is not None:
        return build()
    limits: dict[str, Any] = {"timeout_s": MATH_S} if name == "math" else {}
    try:
        named = named_verifier(name, **limits)
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    closers.append(named.close)
    return named.verifier


def texts(row: Row) -> tuple[str, str, str]:
    return row.right, row.near, row.attack


def judged(verifier: Verifier, row: Row, text: str) -> Verdict:
    return verdict_of(verifier, submitted(text, row.gold, info=row.info))


def outcomes_of(verifier: Verifier, row: Row) -> list[float | str]:
    return [judged(verifier, row, text).outcome for text in texts(row)]


def test_every_verifier_that_ships_has_a_row() -> None:
    assert set(VERIFIER_NAMES) <= set(ROWS)


@pytest.mark.parametrize("name", ROWS)
def test_gold_is_paid_and_near_misses_and_attacks_are_not_with_evidence(made, name: str) -> None:
    verifier, row = made(name), ROWS[name]
    for text, value in zip(texts(row), (1.0, 0.0, 0.0), strict=True):
        verdict = judged(verifier, row, text)
        assert (verdict.outcome, verdict.verifier, verdict.revision) == (value, verifier.name, verifier.revision), text
        assert verdict.evidence or name == "same_text"


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("text", EMPTY)
def test_empty_and_null_answers_are_wrong_and_no_errors(made, name: str, text: str) -> None:
    verdict = judged(made(name), ROWS[name], text)
    assert isinstance(verdict.outcome, float)
    assert verdict.outcome == 0.0 or ROWS[name].judges_form


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row.judges_form])
def test_bad_gold_is_an_error_and_never_a_number(made, name: str) -> None:
    for text in (ROWS[name].right, "", "x"):
        assert verdict_of(made(name), submitted(text, "")).outcome == "grader_error"


@pytest.mark.parametrize(
    ("hostile", "name"), [(hostile, name) for hostile in HOSTILE for name in ALL_READ_ALIKE.get(hostile, ROWS)]
)
def test_hostile_texts_are_bounded_numbers(made, hostile: str, name: str) -> None:
    verifier, row = made(name), ROWS[name]
    started = time.monotonic()
    verdict = judged(verifier, row, HOSTILE[hostile])
    assert time.monotonic() - started < 60
    assert isinstance(verdict.outcome, float)
    assert math.isfinite(verdict.outcome)
    assert verdict.outcome == 0.0 or row.judges_form
    assert len(verdict.evidence) < 10_000


@pytest.mark.parametrize("name", ROWS)
def test_order_batches_and_threads_change_nothing(made, name: str) -> None:
    verifier, row = made(name), ROWS[name]
    submissions = [submitted(t, row.gold, info=row.info, trajectory_id=f"t{n}") for n, t in enumerate(texts(row))]
    expected = [1.0, 0.0, 0.0]
    assert [v.outcome for v in ask(verifier, *submissions)] == expected
    assert [v.outcome for v in ask(verifier, *submissions[::-1])] == expected[::-1]
    found: list[list[float | str]] = []
    threads = [threading.Thread(target=lambda: found.append(outcomes_of(verifier, row))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 2


@pytest.mark.parametrize("name", ROWS)
def test_an_exception_inside_is_no_number(made, name: str) -> None:
    class Broken:
        """Passages that cannot be read."""

        trajectory_id, terminal_reason, artifacts = "t", "model_end", {}
        task = submitted("x", ROWS[name].gold, info=ROWS[name].info).task

        @property
        def passages(self):
            raise RuntimeError("boom")

    composition = Composition([Part(verifier=made(name))])
    submission: Any = Broken()
    (score,) = asyncio.run(composition.score([submission]))
    assert score.outcome == "grader_error"


IN_ANOTHER_PROCESS = """
import json
from tests.verifiers.test_battery import ELSEWHERE, ROWS, _made, outcomes_of
closers, found = [], {}
for name in sorted(ROWS.keys() - ELSEWHERE):
    verifier = _made(name, closers)
    found[name] = [verifier.revision, outcomes_of(verifier, ROWS[name])]
for close in closers:
    close()
print(json.dumps(found))
"""


def test_another_process_says_the_same_under_the_same_revision(made) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", IN_ANOTHER_PROCESS], capture_output=True, env=environment, check=True, timeout=300
    )
    there = json.loads(done.stdout)
    assert there == {name: [made(name).revision, [1.0, 0.0, 0.0]] for name in ROWS.keys() - ELSEWHERE}
