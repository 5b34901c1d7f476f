"""Weights, gates, and what becomes of failures."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollwright.record import NamedValue, Span, Submission, Verdict
from rollwright.verifiers import (
    AnswerRule,
    Composition,
    FunctionVerifier,
    Grade,
    Part,
    ThreadedVerifier,
    VerifierSetupError,
    exact_verifier,
    format_verifier,
    numeric_verifier,
    tool_use_verifier,
)
from tests.cases import case
from tests.verifiers.submissions import submitted

RULE = AnswerRule()


def constant(name: str, value: float) -> FunctionVerifier:
    return FunctionVerifier(name=name, revision=f"{name}-1", grade=lambda _: Grade(value=value))


@dataclass(frozen=True, kw_only=True)
class Odd:
    """A verifier that answers as it is told."""

    answer: Callable[[Sequence[Submission]], Sequence[Verdict]]
    name: str = "odd"
    revision: str = "1"
    scope: Literal["trajectory", "group"] = "trajectory"
    deadline_s: float = 0.05
    wait_s: float = 0.0

    async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
        await asyncio.sleep(self.wait_s)
        return self.answer(submissions)


def said(
    outcome: float, *, name: str = "odd", trajectory_id: str | None = None
) -> Callable[[Sequence[Submission]], list[Verdict]]:
    def answer(submissions: Sequence[Submission]) -> list[Verdict]:
        return [
            Verdict(
                trajectory_id=trajectory_id or s.trajectory_id,
                verifier=name,
                revision="1",
                scope="trajectory",
                outcome=outcome,
            )
            for s in submissions
        ]

    return answer


def raising(_: Sequence[Submission]) -> Sequence[Verdict]:
    raise RuntimeError("boom")


def scored(composition: Composition, *submissions: Submission):
    return asyncio.run(composition.score(submissions))


@pytest.mark.row("S388")
def test_all_components_are_kept_raw_beside_the_scalar() -> None:
    composition = Composition(
        [
            Part(verifier=numeric_verifier(RULE), weight=1.0),
            Part(verifier=format_verifier(RULE), weight=0.1, role="shaping"),
            Part(verifier=tool_use_verifier(), weight=-0.05, role="shaping"),
        ]
    )
    (score,) = scored(composition, submitted("answer: 41"))
    assert score.outcome == pytest.approx(0.1)
    assert [(c.name, c.value, c.weight) for c in score.reward_components] == [
        ("numeric", 0.0, 1.0),
        ("format", 1.0, 0.1),
        ("tool_calls", 0.0, -0.05),
    ]
    assert score.reward_rule == composition.revision
    assert [v.verifier for v in score.verdicts] == ["numeric", "format", "tool_calls"]


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0.1, 2)), min_size=1, max_size=5))
def test_the_reward_is_the_weighted_sum_of_raw_values(parts: list[tuple[float, float]]) -> None:
    composition = Composition([Part(verifier=constant(f"v{i}", v), weight=w) for i, (v, w) in enumerate(parts)])
    (score,) = scored(composition, submitted("x"))
    assert score.outcome == pytest.approx(sum(v * w for v, w in parts))
    assert score.outcome == pytest.approx(sum(c.value * c.weight for c in score.reward_components))


def test_a_closed_gate_pays_nothing() -> None:
    composition = Composition(
        [Part(verifier=numeric_verifier(RULE)), Part(verifier=format_verifier(RULE), role="gate")]
    )
    twice, once = scored(
        composition,
        submitted("answer: 42\nanswer: 42", trajectory_id="a"),
        submitted("answer: 42", trajectory_id="b"),
    )
    assert (twice.outcome, once.outcome) == (0.0, 1.0)
    assert [c.value for c in twice.reward_components] == [1.0, 0.0]


@pytest.mark.row("S382")
def test_the_weight_of_form_is_apart_and_cannot_exceed_correctness_unless_stated() -> None:
    parts = [
        Part(verifier=exact_verifier(RULE), weight=0.5),
        Part(verifier=format_verifier(RULE), weight=0.6, role="shaping"),
    ]
    with pytest.raises(VerifierSetupError, match="shaping weights are 0.6 in all and outcome weights 0.5"):
        Composition(parts)
    (score,) = scored(Composition(parts, max_shaping=2.0), submitted("answer: wrong"))
    assert [(c.name, c.value, c.weight) for c in score.reward_components] == [("exact", 0.0, 0.5), ("format", 1.0, 0.6)]


def test_shaping_within_its_limit_never_lifts_a_wrong_answer_over_a_right_one() -> None:
    composition = Composition(
        [Part(verifier=exact_verifier(RULE)), Part(verifier=format_verifier(RULE), weight=0.3, role="shaping")]
    )
    wrong, right = scored(
        composition, submitted("answer: 41", trajectory_id="a"), submitted("answer: 42\nanswer: 42", trajectory_id="b")
    )
    assert isinstance(wrong.outcome, float)
    assert isinstance(right.outcome, float)
    assert wrong.outcome < right.outcome


@pytest.mark.row("S414")
@pytest.mark.parametrize(
    ("odd", "cause", "evidence"),
    [
        (Odd(answer=raising), "grader_error", "RuntimeError: boom"),
        (Odd(answer=said(1.0), wait_s=60), "timeout", "no verdict within 0.05 seconds"),
        (Odd(answer=lambda _: []), "grader_error", "verdicts on [] where"),
        (Odd(answer=said(1.0, trajectory_id="other")), "grader_error", "verdicts on ['other']"),
        (Odd(answer=said(1.0, name="exact")), "grader_error", "in the name of 'exact'"),
        (Odd(answer=said(float("inf"))), "grader_error", "not a finite number"),
        (Odd(answer=said(float("nan"))), "grader_error", "NaN"),
    ],
    ids=["exception", "hangs", "empty", "of another", "in another's name", "infinite", "nan"],
)
def test_a_failing_grader_gives_no_score_and_never_a_success(odd: Odd, cause: str, evidence: str) -> None:
    (score,) = scored(Composition([Part(verifier=constant("good", 1.0)), Part(verifier=odd)]), submitted("answer: 42"))
    assert score.outcome == cause
    failed = score.verdicts[1]
    assert failed.outcome == cause
    assert evidence in failed.evidence
    assert [(c.name, c.value) for c in score.reward_components] == [("good", 1.0)]


def test_a_part_without_weight_is_watched_and_cannot_spoil_a_score() -> None:
    composition = Composition(
        [Part(verifier=constant("good", 1.0)), Part(verifier=Odd(answer=raising), weight=0.0, role="shaping")]
    )
    (score,) = scored(composition, submitted("x"))
    assert score.outcome == 1.0
    assert score.verdicts[1].outcome == "grader_error"


def test_one_submission_that_breaks_a_grader_leaves_the_others_scored() -> None:
    def picky(submissions: Sequence[Submission]) -> Sequence[Verdict]:
        if any(s.trajectory_id == "bad" for s in submissions):
            raise ValueError("poison")
        return said(1.0)(submissions)

    scores = scored(
        Composition([Part(verifier=Odd(answer=picky))]), *[submitted("x", trajectory_id=i) for i in ("a", "bad", "b")]
    )
    assert [s.outcome for s in scores] == [1.0, "grader_error", 1.0]
    assert [s.trajectory_id for s in scores] == ["a", "bad", "b"]


@pytest.mark.case("F69")
def test_a_grader_failure_is_no_score_and_a_policy_failure_is_zero() -> None:
    example = case("F69")
    outcomes = [row["outcome"] for row in example.input["group"]]

    def grade(submission: Submission) -> Grade:
        match submission.trajectory_id:
            case "0":
                return Grade(value=1.0)
            case "3":
                return Grade(value=0.0, finding="program_timeout")
            case "4":
                raise RuntimeError("the grader's own")
            case _:
                return Grade(value=0.0)

    composition = Composition([Part(verifier=FunctionVerifier(name="tests", revision="1", grade=grade))])
    group = [
        submitted(
            "x", reason="infrastructure_failure" if "could not start" in text else "model_end", trajectory_id=str(i)
        )
        for i, text in enumerate(outcomes)
    ]
    scores = scored(composition, *group)
    rewards = [s.outcome if isinstance(s.outcome, float) else "none" for s in scores]
    assert rewards == example.expect["rewards"]
    used = [r for r in rewards if not isinstance(r, str)]
    assert (len(used), len(rewards) - len(used)) == (example.expect["used"], example.expect["excluded"])
    assert sum(used) / len(used) == pytest.approx(example.expect["group_mean"])
    assert [s.outcome for s in scores if isinstance(s.outcome, str)] == ["infrastructure_failure", "grader_error"]
    assert scores[3].verdicts[0].finding == "program_timeout"


@pytest.mark.parametrize("reason", ["infrastructure_failure", "aborted", "superseded"])
def test_what_ended_by_no_doing_of_the_policy_is_not_judged(reason: str) -> None:
    composition = Composition([Part(verifier=Odd(answer=raising))])
    (score,) = scored(composition, submitted("answer: 42", reason=reason))
    assert (score.outcome, score.verdicts, score.reward_components) == (reason, (), ())


def test_a_group_verifier_is_called_once_with_the_whole_group() -> None:
    sizes: list[int] = []

    def rank(submissions: Sequence[Submission]) -> list[Verdict]:
        sizes.append(len(submissions))
        return [
            Verdict(trajectory_id=s.trajectory_id, verifier="odd", revision="1", scope="group", outcome=float(i))
            for i, s in enumerate(submissions)
        ]

    composition = Composition([Part(verifier=Odd(answer=rank, scope="group"))])
    scores = scored(composition, *[submitted("x", trajectory_id=str(i)) for i in range(3)])
    assert sizes == [3]
    assert [s.outcome for s in scores] == [0.0, 1.0, 2.0]
    failing = Composition([Part(verifier=Odd(answer=raising, scope="group"))])
    assert {s.outcome for s in scored(failing, submitted("x"), submitted("y", trajectory_id="b"))} == {"grader_error"}


def test_a_hung_grader_holds_up_a_group_no_longer_than_its_deadline() -> None:
    composition = Composition([Part(verifier=Odd(answer=said(1.0), wait_s=60))])
    started = time.perf_counter()
    scores = scored(composition, *[submitted("x", trajectory_id=str(i)) for i in range(30)])
    assert {s.outcome for s in scores} == {"timeout"}
    assert time.perf_counter() - started < 5


def test_scoring_is_the_same_in_any_thread_and_any_order() -> None:
    composition = Composition([Part(verifier=numeric_verifier(RULE)), Part(verifier=format_verifier(RULE), weight=0.1)])
    group = [submitted(f"answer: {n}", trajectory_id=str(n)) for n in range(38, 46)]
    here = {s.trajectory_id: s.outcome for s in scored(composition, *group)}
    elsewhere: dict[str, float | str] = {}
    worker = threading.Thread(
        target=lambda: elsewhere.update({s.trajectory_id: s.outcome for s in scored(composition, *group[::-1])})
    )
    worker.start()
    worker.join()
    assert here == elsewhere


def test_everything_that_decides_a_reward_is_in_the_rule() -> None:
    numeric, form = numeric_verifier(RULE), format_verifier(RULE)
    rules = [
        Composition([Part(verifier=numeric)]),
        Composition([Part(verifier=numeric, weight=2.0)]),
        Composition([Part(verifier=numeric), Part(verifier=form, weight=0.1)]),
        Composition([Part(verifier=numeric), Part(verifier=form, weight=0.1, role="shaping")]),
        Composition([Part(verifier=numeric), Part(verifier=form, weight=0.1, role="gate")]),
        Composition([Part(verifier=numeric_verifier(AnswerRule(form="boxed")))]),
    ]
    assert len({rule.revision for rule in rules}) == len(rules)


def test_a_composition_that_means_nothing_is_refused() -> None:
    part = Part(verifier=constant("a", 1.0))
    for parts, sentence in (
        ([], "different names"),
        ([part, part], "different names"),
        ([Part(verifier=constant("a", 1.0), role="gate")], "nothing would say"),
        ([Part(verifier=constant("a", 1.0), weight=0.0)], "nothing would say"),
        ([Part(verifier=constant("a", 1.0), weight=float("nan"))], "finite"),
    ):
        with pytest.raises(VerifierSetupError, match=sentence):
            Composition(parts)


def test_a_verifier_that_blocks_its_thread_is_left_behind_at_its_deadline() -> None:
    release = threading.Event()

    def block(submissions: Sequence[Submission]) -> Sequence[Verdict]:
        release.wait(30)
        return said(1.0)(submissions)

    composition = Composition([Part(verifier=ThreadedVerifier(Odd(answer=block)))])
    started = time.perf_counter()
    first = scored(composition, *[submitted("x", trajectory_id=str(i)) for i in range(8)])
    (late,) = scored(composition, submitted("x"))
    assert time.perf_counter() - started < 10
    assert {s.outcome for s in first} == {"timeout"}
    assert late.outcome == "grader_error"
    assert "have not come back" in late.verdicts[0].evidence
    release.set()


def test_a_verifier_in_a_thread_says_what_it_says_elsewhere() -> None:
    composition = Composition([Part(verifier=ThreadedVerifier(numeric_verifier(RULE)))])
    right, wrong = scored(
        composition, submitted("answer: 42", trajectory_id="a"), submitted("answer: 41", trajectory_id="b")
    )
    assert (right.outcome, wrong.outcome) == (1.0, 0.0)
    assert composition.revision == Composition([Part(verifier=numeric_verifier(RULE))]).revision


def test_calls_one_after_the_other_share_a_thread_and_a_task_left_behind_ends_with_its_own() -> None:
    """A loop in which something was left running is not for the next call."""
    loops: list[asyncio.AbstractEventLoop] = []
    left: list[asyncio.Task[None]] = []

    class Leaving(Odd):
        async def verify(self, submissions: Sequence[Submission]) -> Sequence[Verdict]:
            loops.append(asyncio.get_running_loop())
            if submissions[0].trajectory_id == "leaves":
                left.append(asyncio.create_task(asyncio.sleep(60)))
            return self.answer(submissions)

    verifier = ThreadedVerifier(Leaving(answer=said(1.0), deadline_s=20))

    async def ask() -> None:
        for name in ("a", "b", "leaves", "c"):
            await verifier.verify([submitted("x", trajectory_id=name)])

    asyncio.run(ask())
    first, second, leaving, last = loops
    assert first is second is leaving is not last
    deadline = time.monotonic() + 20
    while not left[0].done() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert left[0].cancelled()


def changed(**fields: Any) -> Callable[[Sequence[Submission]], list[Verdict]]:
    return lambda submissions: [replace(verdict, **fields) for verdict in said(1.0)(submissions)]


def leaving(error: BaseException) -> Callable[[Sequence[Submission]], list[Verdict]]:
    def answer(_: Sequence[Submission]) -> list[Verdict]:
        raise error

    return answer


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    "answer",
    [
        changed(evidence={"a": 1}),
        changed(evidence=None),
        changed(components=(NamedValue(name="x", value=float("nan")),)),
        changed(components=(NamedValue(name="x", value=float("inf")),)),
        changed(components=None),
        changed(outcome=1e308),
        changed(outcome=float("-inf")),
        changed(outcome="good"),
        changed(outcome=None),
        changed(outcome=b"1"),
        changed(scope="group"),
        changed(scope="planet"),
        changed(revision="2"),
        changed(revision=None),
        changed(span=Span(segment=0, token_start=0, token_end=1)),
        changed(finding=3),
        changed(cost=float("nan")),
        lambda _: None,
        lambda _: [None],
        lambda _: 7,
        leaving(SystemExit(1)),
        leaving(KeyboardInterrupt()),
        leaving(asyncio.CancelledError()),
        leaving(Unspeakable()),
    ],
)
@pytest.mark.parametrize("is_threaded", [False, True])
def test_an_answer_that_is_no_verdict_is_a_grading_error_of_its_own_trajectory(answer: Any, is_threaded: bool) -> None:
    def answer_one(submissions: Sequence[Submission]) -> Sequence[Verdict]:
        return answer(submissions) if submissions[0].trajectory_id == "bad" else said(1.0)(submissions)

    odd = Odd(answer=answer_one, deadline_s=20)
    composition = Composition([Part(verifier=ThreadedVerifier(odd) if is_threaded else odd)])
    bad, good = scored(composition, submitted("x", trajectory_id="bad"), submitted("x", trajectory_id="good"))
    assert (bad.outcome, good.outcome) == ("grader_error", 1.0)
    assert bad.verdicts[0].evidence and bad.reward_components == ()


def test_a_verdict_is_said_anew_with_plain_numbers_and_bounded_text() -> None:
    def answer(submissions: Sequence[Submission]) -> Any:
        (verdict,) = said(1.0)(submissions)
        fields = {name: getattr(verdict, name) for name in Verdict.__dataclass_fields__}
        return [SimpleNamespace(**{**fields, "outcome": True, "evidence": "\ud800" + "e" * 9000})]

    (score,) = scored(Composition([Part(verifier=Odd(answer=answer))]), submitted("x"))
    (verdict,) = score.verdicts
    assert isinstance(verdict, Verdict) and type(verdict.outcome) is float and score.outcome == 1.0
    assert len(verdict.evidence) == 4000 and verdict.evidence.encode()


def test_a_sum_that_is_no_number_is_a_grading_error() -> None:
    parts = [Part(verifier=constant(name, 1e10), weight=1e308) for name in ("a", "b")]
    (score,) = scored(Composition(parts), submitted("x"))
    assert score.outcome == "grader_error" and len(score.reward_components) == 2


def test_cancelling_a_scoring_ends_it() -> None:
    async def run() -> bool:
        slow = Composition([Part(verifier=Odd(answer=said(1.0), wait_s=60, deadline_s=60))])
        task = asyncio.create_task(slow.score([submitted("x")]))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())
