"""Groups: rubrics written once and used alike, grading in two orders under a budget; progress trees; safety pairs."""

import asyncio
import math
from dataclasses import replace

import pytest
import torch

from rollwright.algorithms import CreditInputs
from rollwright.algorithms.credit.quality import redistribute_by_quality
from rollwright.record import Passage, Submission, Verdict
from rollwright.verifiers import Composition, FunctionVerifier, Grade, Part, VerifierSetupError
from rollwright.verifiers.judging.grade_judge import GradeJudge
from rollwright.verifiers.judging.group_grader import GradingBudget, GroupGrader, quality_factors
from rollwright.verifiers.judging.prompting import Shown
from rollwright.verifiers.judging.rubric_book import RubricBook, read_book, synthesize_rubrics
from rollwright.verifiers.judging.rubric_judge import RubricJudge
from rollwright.verifiers.judging.safety import SafetyJudge
from rollwright.verifiers.progress import ProgressRule, progress_verifier
from tests.verifiers.judging.judges import FunctionJudge, asker_of, scripted
from tests.verifiers.submissions import ask, submitted, verdict_of


def group_of(*texts: str) -> list[Submission]:
    return [submitted(text, trajectory_id=f"t000001-{n:02d}-0") for n, text in enumerate(texts)]


def book_for(submissions: list[Submission], *replies: str) -> RubricBook:
    attempts = {submissions[0].task.task_id: submissions}
    return asyncio.run(synthesize_rubrics(asker_of(scripted(*replies)), attempts)).book


@pytest.mark.row("S398")
def test_rubrics_are_written_offline_versioned_and_grade_alike_on_replay():
    submissions = group_of("clean", "long winded", "clean too")
    book = book_for(submissions, "no rubric", "ITEM 1: It is clean.\nITEM 2: It is short.")
    kept = read_book(book.to_json())
    assert kept.version == book.version
    client = FunctionJudge(
        reply=lambda p: f"ITEM 1: {'MET' if 'clean' in p.split('[BEGIN DATA]')[1] else 'UNMET'}\nITEM 2: MET"
    )

    def scores(one: RubricBook) -> list:
        judge = RubricJudge(asker=asker_of(client), rubric_of=one.rubric_of, rubrics_revision=one.version)
        return [(v.outcome, v.revision) for v in ask(judge, *submissions)]

    assert [value for value, _ in scores(book)] == [1.0, 0.5, 1.0]
    assert scores(kept) == scores(book) == scores(kept)
    other = book_for(submissions, "ITEM 1: It is green.\nITEM 2: It is short.")
    assert other.version != book.version and scores(other)[0][1] != scores(book)[0][1]
    with pytest.raises(VerifierSetupError, match="it was edited"):
        read_book(book.to_json().replace("clean", "dirty"))
    unknown = submitted("text", question="another?")
    judge = RubricJudge(asker=asker_of(client), rubric_of=book.rubric_of, rubrics_revision=book.version)
    assert verdict_of(judge, unknown).outcome == "grader_error"


def test_a_task_for_which_no_rubric_can_be_read_is_named_and_one_attempt_is_not_enough():
    submissions = group_of("a", "b")
    attempts = {"s/1": submissions}
    written = asyncio.run(synthesize_rubrics(asker_of(scripted("ITEM 1: only one")), attempts))
    assert (written.without, dict(written.book.rubrics), written.calls) == (("s/1",), {}, 3)
    with pytest.raises(VerifierSetupError, match="two of them"):
        asyncio.run(synthesize_rubrics(asker_of(scripted("x")), {"s/1": submissions[:1]}))


def by_name(name: str, values: dict[str, float]) -> FunctionVerifier:
    return FunctionVerifier(
        name=name, revision="1", grade=lambda submission: Grade(value=values[submission.passages[-1].text])
    )


def test_test_reward_times_two_rubrics_is_a_composition_with_gates():
    # M28.a: test=[1,1,0] solution=[.8,1,.9] behavior=[.5,1,1] -> R=[.4,1,0]
    composition = Composition(
        [
            Part(verifier=by_name("test", {"a": 1, "b": 1, "c": 0})),
            Part(verifier=by_name("solution", {"a": 0.8, "b": 1, "c": 0.9}), role="gate"),
            Part(verifier=by_name("behavior", {"a": 0.5, "b": 1, "c": 1}), role="gate"),
        ]
    )
    scores = asyncio.run(composition.score(group_of("a", "b", "c")))
    assert [score.outcome for score in scores] == pytest.approx([0.4, 1.0, 0.0])
    assert {c.name for c in scores[0].reward_components} == {"test", "solution", "behavior"}


GRADES = {"fine": 10, "poor": 4, "bad": 1}


def graded(prompt: str) -> str:
    """Grades each attempt by the word that it begins with."""
    parts = [part.split("\n")[2].split()[0] for part in prompt.split("[BEGIN ATTEMPT ")[1:]]
    return "\n".join(f"CANDIDATE {n}: {GRADES[word]}" for n, word in enumerate(parts, start=1))


def components_of(verdict: Verdict) -> dict[str, float]:
    return {part.name: part.value for part in verdict.components}


@pytest.mark.row("S399")
def test_a_group_is_graded_in_two_orders_with_agreement_and_budget_in_the_record():
    client = FunctionJudge(reply=graded, cost=0.3)
    verdicts = ask(GroupGrader(asker=asker_of(client)), *group_of("fine work", "poor work", "bad work"))
    assert [v.outcome for v in verdicts] == [1.0, 0.4, 0.1]
    assert components_of(verdicts[0]) == {
        "judge_calls": pytest.approx(2 / 3),
        "inspections": 0.0,
        "order_agreement": 1.0,
        "order_gap": 0.0,
    }
    assert sum(v.cost or 0 for v in verdicts) == pytest.approx(0.6)
    first, second = client.shown
    assert first.index("fine work") < first.index("bad work") and second.index("bad work") < second.index("fine work")


@pytest.mark.row("S399")
def test_a_grader_that_follows_the_order_shows_in_its_agreement_and_can_be_left_out():
    client = scripted("CANDIDATE 1: 9\nCANDIDATE 2: 5\nCANDIDATE 3: 1")
    submissions = group_of("a", "b", "c")
    verdicts = ask(GroupGrader(asker=asker_of(client), min_agreement=-1.0), *submissions)
    assert components_of(verdicts[0])["order_agreement"] == -1.0
    assert components_of(verdicts[0])["order_gap"] == pytest.approx(0.8)
    assert [v.outcome for v in ask(GroupGrader(asker=asker_of(client)), *submissions)] == ["grader_error"] * 3


def test_a_member_may_be_looked_at_whole_within_the_budget():
    client = FunctionJudge(reply=lambda p: graded(p) if "the end" in p else "VERDICT: INSPECT 1")
    long = "fine " + "x" * 60 + " the end"
    grader = GroupGrader(asker=asker_of(client), budget=GradingBudget(inspections=1, preview_characters=40))
    (verdict,) = ask(grader, *group_of(long))
    assert (verdict.outcome, components_of(verdict)["inspections"]) == (1.0, 2.0)
    assert "the rest" in client.shown[0]
    greedy = scripted("VERDICT: INSPECT 1")
    assert ask(replace(grader, asker=asker_of(greedy)), *group_of(long))[0].outcome == "unparsable_judge"
    assert len(greedy.shown) == 2 * (1 + 3)


def test_factors_move_advantage_as_the_method_says_and_a_failed_grader_moves_nothing():
    # M29.a: R=[1,1,0,0] f=[1,.5,1,1] cap=inf -> A=[.6666667,.3333333,-.5,-.5]
    def credit(verdicts) -> list[float]:
        inputs = CreditInputs(
            rewards=torch.tensor([1.0, 1, 0, 0], dtype=torch.float64),
            group_index=torch.zeros(4, dtype=torch.int64),
            source_index=torch.zeros(4, dtype=torch.int64),
            episode_index=torch.arange(4),
            row_offsets=torch.arange(5),
            is_truncated=torch.zeros(4, dtype=torch.bool),
            step_rewards=torch.zeros(4, dtype=torch.float64),
            turn_index=torch.zeros(4, dtype=torch.int64),
            state_index=torch.full((4,), -1),
            logprobs={},
            values={"quality": torch.tensor(quality_factors(verdicts), dtype=torch.float64)},
        )
        return redistribute_by_quality(inputs, max_scale=math.inf, passing=1.0).advantages.tolist()

    client = scripted(
        "CANDIDATE 1: 10\nCANDIDATE 2: 5\nCANDIDATE 3: 10\nCANDIDATE 4: 10",
        "CANDIDATE 1: 10\nCANDIDATE 2: 10\nCANDIDATE 3: 5\nCANDIDATE 4: 10",
    )
    verdicts = ask(GroupGrader(asker=asker_of(client)), *group_of("a", "b", "c", "d"))
    assert [v.outcome for v in verdicts] == [1.0, 0.5, 1.0, 1.0]
    assert credit(verdicts) == pytest.approx([0.6666667, 0.3333333, -0.5, -0.5])
    failed = ask(GroupGrader(asker=asker_of(scripted("none"))), *group_of("a", "b", "c", "d"))
    assert credit(failed) == [0.5, 0.5, -0.5, -0.5]


def opened(submission: Submission) -> str | None:
    return next((f"opened in {p.text!r}" for p in submission.passages if p.kind == "tool" and "open" in p.text), None)


def filled(submission: Submission) -> str | None:
    return "the form is stored" if b"name" in submission.artifacts.get("form.json", b"") else None


def sent(submission: Submission) -> str | None:
    return "the mail is stored" if "mail.txt" in submission.artifacts else None


@pytest.mark.row("S400")
def test_outcome_judge_and_progress_tree_are_parts_of_their_own_with_stored_reasons():
    tree = ProgressRule(
        name="task",
        join="in_order",
        children=(
            ProgressRule(name="opened", holds=opened),
            ProgressRule(
                name="done",
                weight=2,
                children=(ProgressRule(name="filled", holds=filled), ProgressRule(name="sent", holds=sent)),
            ),
        ),
    )
    passages = [
        Passage(actor="agent", kind="tool", text="page open"),
        Passage(actor="agent", kind="policy", text="done"),
    ]
    submission = replace(submitted(passages), artifacts={"form.json": b'{"name": 1}'})
    outcome = GradeJudge(asker=asker_of(scripted("The mail is missing.\nGRADE: 0")), shown=Shown(part="episode"))
    parts = [Part(verifier=outcome), Part(verifier=progress_verifier(tree), weight=0.3, role="shaping")]
    (score,) = asyncio.run(Composition(parts).score([submission]))
    judged, progress = score.verdicts
    assert (judged.outcome, judged.evidence) == (0.0, "The mail is missing.\nGRADE: 0")
    assert progress.outcome == pytest.approx((1 + 2 * 0.5) / 3)
    assert progress.evidence.split("\n") == [
        "opened: opened in 'page open'",
        "filled: the form is stored",
        "sent: not reached",
    ]
    assert score.outcome == pytest.approx(0.2)
    nothing = verdict_of(progress_verifier(tree), replace(submission, passages=passages[1:]))
    assert nothing.outcome == 0.0  # in order: what comes later does not count before the page is open


@pytest.mark.row("S385")
def test_harmful_compliance_and_over_refusal_both_cost_on_paired_prompts():
    client = FunctionJudge(
        reply=lambda p: "VERDICT: REFUSED" if "cannot help" in p.split("[BEGIN RESPONSE]")[1] else "VERDICT: COMPLIED"
    )
    judge = SafetyJudge(asker=asker_of(client))
    found = {
        (intent, text): verdict_of(judge, submitted(text, info={"intent": intent}))
        for intent in ("harmful", "harmless")
        for text in ("I cannot help with that.", "Sure: do this.", "")
    }
    values = {key: v.outcome for key, v in found.items()}
    assert values["harmful", "I cannot help with that."] == values["harmless", "Sure: do this."] == 1.0
    assert values["harmful", "Sure: do this."] == values["harmless", "I cannot help with that."] == 0.0
    assert components_of(found["harmful", "Sure: do this."])["harmful_compliance"] == 1.0
    assert components_of(found["harmless", "I cannot help with that."])["over_refusal"] == 1.0
    assert all(v.outcome == 0.0 and v.finding == "no_answer" for (_, text), v in found.items() if not text)
    assert all("harmful" not in prompt and "harmless" not in prompt for prompt in client.shown)
    assert verdict_of(judge, submitted("x", info={"intent": "unclear"})).outcome == "grader_error"
