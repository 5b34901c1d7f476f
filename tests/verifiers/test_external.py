"""Checkers from outside, and testbenches: accept, reject and failure never mixed up."""

import asyncio
import os
import sys

import pytest

from rollwright.verifiers import (
    AnswerRule,
    CallableChecker,
    CheckerVerifier,
    CheckReply,
    CommandChecker,
    Interface,
    Port,
    TestbenchVerifier,
    VerifierSetupError,
    stimuli,
)
from tests.verifiers.submissions import submitted, verdict_of
from tests.verifiers.toy_simulator import ToySimulator

RULE = AnswerRule()
PROOF_CHECKER = """
import json, sys, time
request = json.load(sys.stdin)
text = request["submission"]
if "hang" in text: time.sleep(600)
if "break" in text: sys.exit(70)
if "kill" in text: import os; os.kill(os.getpid(), 9)
print("accepted", flush=True)
print("flood " * (200000 if "flood" in text else 1), file=sys.stderr)
sys.exit(0 if text.strip() == "by " + request["gold"] else 1)
"""


def command(**more) -> CommandChecker:
    return CommandChecker(command=(sys.executable, "-I", "-c", PROOF_CHECKER), revision="1", **more)


@pytest.mark.row("S383")
@pytest.mark.parametrize(
    ("text", "outcome", "finding"),
    [
        ("by induction", 1.0, None),
        ("by magic", 0.0, None),
        ("accepted\nexit 0", 0.0, None),
        ("flood", 0.0, None),
        ("", 0.0, "no_answer"),
        ("break the checker", "infrastructure", None),
        ("kill", "infrastructure", None),
        ("x" * 300_000, 0.0, "unparsable_answer"),
    ],
)
def test_a_proof_is_accepted_or_rejected_and_a_broken_checker_says_neither(text: str, outcome, finding) -> None:
    verdict = verdict_of(CheckerVerifier(rule=RULE, checker=command()), submitted(text, "induction"))
    assert (verdict.outcome, verdict.finding) == (outcome, finding)
    assert verdict.evidence


@pytest.mark.row("S383")
def test_a_command_that_cannot_start_is_no_rejection() -> None:
    checker = CommandChecker(command=("/no/such/checker",), revision="1")
    verdict = verdict_of(CheckerVerifier(rule=RULE, checker=checker), submitted("by induction", "induction"))
    assert verdict.outcome == "infrastructure"
    assert "did not start" in verdict.evidence


@pytest.mark.row("S383")
def test_a_check_that_does_not_end_is_ended_and_is_the_submissions_unless_the_probe_hangs_too() -> None:
    checker = command(wall_s=1.0)
    verdict = verdict_of(CheckerVerifier(rule=RULE, checker=checker, probe="by magic"), submitted("hang", "induction"))
    assert (verdict.outcome, verdict.finding) == (0.0, "program_timeout")
    verdict = verdict_of(
        CheckerVerifier(rule=RULE, checker=command(wall_s=0.3), probe="hang"), submitted("hang", "induction")
    )
    assert verdict.outcome == "timeout"


def test_a_command_learns_nothing_of_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("A_SECRET", "42")
    looks = (sys.executable, "-I", "-c", "import os, sys; sys.exit('A_SECRET' in os.environ)")
    checker = CommandChecker(command=looks, revision="1")
    assert os.environ["A_SECRET"] == "42"
    assert verdict_of(CheckerVerifier(rule=RULE, checker=checker), submitted("x")).outcome == 1.0


def test_a_callable_is_a_checker_and_its_exception_a_failure() -> None:
    async def check(request):
        if request.submission == "boom":
            raise RuntimeError("boom")
        is_right = request.submission == request.gold
        return CheckReply(status="accept" if is_right else "reject", components={"steps": 3.0})

    verifier = CheckerVerifier(rule=RULE, checker=CallableChecker(function=check, revision="1"), graded="answer")
    assert verdict_of(verifier, submitted("so\nanswer: 42")).outcome == 1.0
    assert verdict_of(verifier, submitted("answer: 41")).components[0].value == 3.0
    assert verdict_of(verifier, submitted("answer: boom")).outcome == "infrastructure"
    assert verdict_of(verifier, submitted("42")).finding == "no_answer"
    assert verdict_of(verifier, submitted("answer: 42", "")).outcome == "grader_error"


def test_codes_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(VerifierSetupError, match="two different exit codes"):
        CommandChecker(command=("x",), revision="1", reject_code=0)


# --------------------------------------------------------------------------------------------------------- testbench

ADDER = "s = a ^ b ^ c\nd = (a & b) | (c & (a ^ b))"
PORTS = {"inputs": {"a": 1, "b": 1, "c": 1}, "outputs": {"s": 1, "d": 1}}


def judged(design: str, *, info=PORTS, gold: str = ADDER, simulator=None):
    verifier = TestbenchVerifier(rule=RULE, simulator=simulator or ToySimulator())
    return verdict_of(verifier, submitted(design, gold, info=info))


@pytest.mark.row("S402")
@pytest.mark.row("S460")
@pytest.mark.parametrize(
    ("design", "value"),
    [
        (ADDER, 1.0),
        ("s = (a + b + c) & 1\nd = (a & b) | (b & c) | (a & c)", 1.0),  # An equivalent rewrite.
        (f"Here it is:\n```verilog\n{ADDER}\n```\n", 1.0),
        ("s = a ^ b ^ c\nd = ((a & b) | (c & (a | b))) ^ (a & b & c)", 0.0),  # One gate too many.
        ("s = a ^ b\nd = (a & b) | (c & (a ^ b))", 0.0),
        ("s = a ^ b ^ c", 0.0),
        ("print PASSED\ns = 1\nd = 1", 0.0),
        ("print all 8 vectors agree", 0.0),
    ],
)
def test_a_rewrite_that_does_the_same_is_accepted_and_a_mutation_is_not(design: str, value: float) -> None:
    assert judged(design).outcome == value


@pytest.mark.row("S402")
def test_a_mutation_that_one_bit_of_many_betrays_is_found() -> None:
    wide = {"inputs": {"a": 64, "b": 64}, "outputs": {"y": 64}}
    assert judged("y = b + a", info=wide, gold="y = a + b").outcome == 1.0
    assert judged("y = (a ^ b) + (a & b) + (a & b)", info=wide, gold="y = a + b").outcome == 1.0
    assert judged(f"y = (a + b) ^ (a & {1 << 63})", info=wide, gold="y = a + b").outcome == 0.0
    assert judged("y = a | b", info=wide, gold="y = a + b").outcome == 0.0


@pytest.mark.row("S460")
def test_a_design_that_fails_is_wrong_and_a_simulator_that_fails_says_nothing() -> None:
    assert judged("s = (").finding == "unparsable_answer"
    assert judged("s = hidden").outcome == 0.0
    assert (judged("loop").outcome, judged("loop").finding) == (0.0, "program_timeout")
    assert judged("").finding == "no_answer"
    assert judged(ADDER, simulator=ToySimulator(is_broken=True)).outcome == "infrastructure"
    assert judged(ADDER, gold="s = (").outcome == "grader_error"
    assert judged(ADDER, info={}).outcome == "grader_error"
    assert judged(ADDER, info={"inputs": {"a b": 1}, "outputs": {"s": 1}}).outcome == "grader_error"


def test_the_vectors_follow_from_interface_and_seed() -> None:
    small = Interface(inputs=(Port(name="a", width=2), Port(name="b", width=3)), outputs=(Port(name="y"),))
    assert len(stimuli(small, num_random=5, seed=0)) == 32
    wide = Interface(inputs=(Port(name="a", width=32),), outputs=(Port(name="y"),))
    vectors = stimuli(wide, num_random=50, seed=0)
    assert vectors == stimuli(wide, num_random=50, seed=0) != stimuli(wide, num_random=50, seed=1)
    assert {0, 2**32 - 1, 1, 2**31} <= {vector["a"] for vector in vectors}


def test_checks_of_several_submissions_run_beside_each_other() -> None:
    verifier = CheckerVerifier(rule=RULE, checker=command())

    async def scenario():
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(verifier.verify([submitted(f"by {g}", g)])) for g in ("a", "b", "c")]
        return [task.result()[0].outcome for task in tasks]

    assert asyncio.run(scenario()) == [1.0, 1.0, 1.0]
