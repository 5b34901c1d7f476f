"""Mathematical equality: our rules, math-verify behind them, and processes that are killed."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollwright.verifiers import (
    AnswerRule,
    Composition,
    MathLimits,
    MathPool,
    MathVerifier,
    Part,
    VerifierSetupError,
)
from tests.cases import case
from tests.verifiers.submissions import submitted, verdict_of

BOXED = AnswerRule(form="boxed")


@pytest.fixture(scope="module")
def pool() -> Iterator[MathPool]:
    with MathPool(MathLimits(cpu_s=1.0)) as opened:
        yield opened


@pytest.fixture(scope="module")
def verifier(pool: MathPool) -> MathVerifier:
    return MathVerifier(rule=BOXED, pool=pool)


def outcome(verifier: MathVerifier, gold: str, answer: str, question: str = "q?") -> float | str:
    return verdict_of(verifier, submitted(f"So \\boxed{{{answer}}}.", gold, question=question)).outcome


@pytest.mark.row("S377")
@pytest.mark.parametrize(
    ("gold", "answer", "value"),
    [
        ("\\frac{1}{2}", "0.5", 1.0),
        ("\\frac{1}{2}", "\\frac{2}{4}", 1.0),
        ("\\frac{1}{2}", "\\frac{1}{3}", 0.0),
        ("x^2+2x+1", "(x+1)^2", 1.0),
        ("x^2+2x+1", "(x-1)^2", 0.0),
        ("\\sqrt{2}", "\\frac{2}{\\sqrt{2}}", 1.0),
        ("\\sqrt{2}", "1.414", 0.0),
        ("\\{1,2\\}", "\\{2,1\\}", 1.0),
        ("\\{1,2\\}", "\\{1,2,3\\}", 0.0),
        ("42", "x=42", 1.0),
        ("42", "43", 0.0),
        ("5 cm", "5 cm", 1.0),
        ("5 cm", "5", 0.0),
        ("5 cm", "5 m", 0.0),
        ("5\\text{ kg}", "5\\text{ kg}", 1.0),
        ("5\\text{ kg}", "5\\text{ g}", 0.0),
        ("5 km/h", "5 km/h", 1.0),
        ("5 km/h", "5", 0.0),
        ("\\frac{1}{2} cm", "\\frac{1}{2}", 0.0),
        ("42", "42\\%", 0.0),
        ("42\\%", "42", 0.0),
        ("42\\%", "42\\%", 1.0),
        ("0.42", "42\\%", 0.0),
        ("90^\\circ", "90", 0.0),
        ("90^\\circ", "90^{\\circ}", 1.0),
        ("90^\\circ", "90°", 1.0),
        ("\\$5", "5", 0.0),
        ("2x+1", "1+2x", 1.0),
        ("2x", "x \\cdot 2", 1.0),
        ("7", "7 \\bmod 10", 0.0),
        ("42", "42 \\pm 100", 0.0),
        ("42", "\\{41,42,43\\}", 0.0),
        ("42", "\\text{not } 42", 0.0),
        ("42", "\\frac{42}{", 0.0),
        ("x+1", "\\", 0.0),
        ("x+1", "$x+1$ and $x$", 0.0),
        ("x+1", "(" * 50, 0.0),
        ("1000", "1,000", 1.0),
        ("\\pi", "3.14", 0.0),
        ("\\pi", "\\pi", 1.0),
    ],
)
def test_the_equivalence_table_holds_and_malformed_is_never_right(
    verifier: MathVerifier, gold: str, answer: str, value: float
) -> None:
    assert outcome(verifier, gold, answer) == value


@pytest.mark.case("F64")
def test_sets_ignore_order_tuples_do_not_and_interval_ends_matter(verifier: MathVerifier) -> None:
    example = case("F64")
    for (gold, answer), correct in zip(example.input["pairs"], example.expect["correct"], strict=True):
        assert outcome(verifier, gold, answer) == float(correct), (gold, answer)
        assert outcome(verifier, answer, gold) == float(correct), (answer, gold)
        assert outcome(verifier, gold, gold) == 1.0


@pytest.mark.case("F66")
def test_tiny_and_huge_numbers_are_not_taken_for_each_other(verifier: MathVerifier) -> None:
    example = case("F66")
    for (gold, answer), correct in zip(example.input["pairs"], example.expect["correct"], strict=True):
        assert outcome(verifier, gold, answer) == float(correct), (gold, answer)


@pytest.mark.case("F67")
def test_a_gold_answer_that_is_no_mathematics_gives_no_score(verifier: MathVerifier) -> None:
    pairs = case("F67").input["pairs"]
    found = [outcome(verifier, gold, answer) for gold, answer in pairs[:3]]
    assert found == [0.0, "grader_error", "grader_error"]
    # The stated policy for a gold answer that does not parse: unscored, even where the answer is the same text.
    gold, answer = pairs[3]
    marked = MathVerifier(rule=AnswerRule(), pool=verifier.pool)
    assert verdict_of(marked, submitted(f"answer: {answer}", gold)).outcome == "grader_error"


@pytest.mark.parametrize(
    ("gold", "attack", "question"),
    [
        ("1050", "42*25", "What is 42*25?"),
        ("1050", "42 \\cdot 25", "What is 42*25?"),
        ("1050", "1000+50", "What is 42*25?"),
        ("5", "1=2=5", "q?"),
        ("5", "5=5", "q?"),
        ("2x+1", "(x+1)^2-x^2", "Simplify (x+1)^2 - x^2."),
        ("42", "42, 43", "q?"),
        ("42", "\\{41, 42, 43\\}", "q?"),
        ("42", "41 < x < 43", "q?"),
        ("42", "\\text{42}", "q?"),
        ("42", "", "q?"),
    ],
)
def test_no_attack_is_paid(verifier: MathVerifier, gold: str, attack: str, question: str) -> None:
    assert outcome(verifier, gold, attack, question) == 0.0


def test_an_answer_outside_the_box_or_in_an_open_one_is_none(verifier: MathVerifier) -> None:
    for text in ("42", "\\boxed{42", "the answer is $42$"):
        verdict = verdict_of(verifier, submitted(text))
        assert (verdict.outcome, verdict.finding) == (0.0, "no_answer")


@pytest.mark.parametrize("tower", ["\\frac{1}{9^{9^{9^{9}}}}", "x^{9^{9^{9}}}"])
def test_a_power_tower_is_ended_and_is_the_policys_own_doing(verifier: MathVerifier, tower: str) -> None:
    started = time.perf_counter()
    verdict = verdict_of(verifier, submitted(f"\\boxed{{{tower}}}", "\\sqrt{2}"))
    assert (verdict.outcome, verdict.finding) == (0.0, "program_timeout")
    assert time.perf_counter() - started < 60
    assert outcome(verifier, "x+1", "1+x") == 1.0  # And the next answer is graded as ever.


def test_a_power_tower_as_gold_is_bad_data(verifier: MathVerifier) -> None:
    assert outcome(verifier, "\\frac{1}{9^{9^{9^{9}}}}", "1") == "grader_error"


def test_cpu_time_is_the_limit_not_the_wall_clock(pool: MathPool) -> None:
    assert pool.compare("1", "\\frac{1}{9^{9^{9^{9}}}}") == "cpu_limit"


def test_a_worker_that_is_killed_from_outside_is_replaced() -> None:
    before = children()
    with MathPool() as own:
        assert own.compare("x", "x") == "equal"
        (worker,) = set(children()) - set(before)
        os.kill(worker, signal.SIGKILL)
        assert own.compare("x", "x") == "equal"


def test_workers_that_are_killed_from_outside_again_and_again_give_no_score() -> None:
    done = threading.Event()

    def kill_all() -> None:
        while not done.wait(0.02):
            for worker in tuple(own._threads._processes):
                os.kill(worker._process.pid, signal.SIGKILL)

    with MathPool(MathLimits(cpu_s=30.0)) as own:
        killer = threading.Thread(target=kill_all)
        killer.start()
        verifier = MathVerifier(rule=BOXED, pool=own)
        verdict = verdict_of(verifier, submitted("\\boxed{\\frac{1}{9^{9^{9^{9}}}}}", "x"))
        done.set()
        killer.join()
    assert verdict.outcome == "infrastructure"


def test_a_worker_that_stands_still_is_a_timeout_of_the_grader_and_no_score() -> None:
    before = children()
    with MathPool(MathLimits(wall_s=0.3)) as own:
        verifier = MathVerifier(rule=BOXED, pool=own)
        assert outcome(verifier, "x", "x") == 1.0
        (worker,) = set(children()) - set(before)
        os.kill(worker, signal.SIGSTOP)
        assert outcome(verifier, "x", "x") == "timeout"
    assert children() == before


def test_the_same_verdicts_in_any_thread_and_on_any_loop(verifier: MathVerifier) -> None:
    pairs = [("x+1", "1+x"), ("x+1", "x"), ("\\sqrt{8}", "2\\sqrt{2}")]
    here = [outcome(verifier, gold, answer) for gold, answer in pairs]
    found: list[list[float | str]] = []
    threads = [
        threading.Thread(target=lambda: found.append([outcome(verifier, gold, answer) for gold, answer in pairs]))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [here] * 3
    assert here == [1.0, 0.0, 1.0]


def test_a_cancelled_verification_returns_at_once_and_the_pool_serves_on(verifier: MathVerifier) -> None:
    async def scenario() -> float:
        started = time.perf_counter()
        hopeless = submitted("\\boxed{\\frac{1}{9^{9^{9^{9}}}}}", "\\sqrt{2}")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await verifier.verify([hopeless])
        return time.perf_counter() - started

    assert asyncio.run(scenario()) < 2
    assert outcome(verifier, "x+1", "1+x") == 1.0


def test_nothing_is_started_before_it_is_needed_and_nothing_is_left_after() -> None:
    # What a test before this one started may end meanwhile.
    before = set(children())
    with MathPool() as pool:
        verifier = MathVerifier(rule=BOXED, pool=pool)
        assert outcome(verifier, "42", "42") == 1.0  # Numbers need no process.
        assert not set(children()) - before
        assert outcome(verifier, "x", "x") == 1.0
        assert len(set(children()) - before) == 1
    assert not set(children()) - before
    with pytest.raises(VerifierSetupError, match="closed"):
        outcome(verifier, "x", "x")


def test_in_a_composition_a_closed_pool_is_a_counted_failure(pool: MathPool) -> None:
    closed = MathPool()
    closed.close()
    composition = Composition([Part(verifier=MathVerifier(rule=BOXED, pool=closed))])
    (score,) = asyncio.run(composition.score([submitted("\\boxed{x}", "x")]))
    assert score.outcome == "grader_error"
    good = Composition([Part(verifier=MathVerifier(rule=BOXED, pool=pool))])
    (score,) = asyncio.run(good.score([submitted("\\boxed{x}", "x")]))
    assert score.outcome == 1.0


def test_limits_that_nothing_could_meet_are_refused() -> None:
    with pytest.raises(VerifierSetupError, match="above 0"):
        MathLimits(cpu_s=0)


def children() -> list[int]:
    """Processes that this one started, from the kernel's own list."""
    listed = [Path(f"/proc/self/task/{task}/children") for task in os.listdir("/proc/self/task")]
    return sorted(int(pid) for path in listed if path.exists() for pid in path.read_text().split())
