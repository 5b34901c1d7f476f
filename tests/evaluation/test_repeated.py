"""Several attempts at a task: votes, consistency, coverage, sharpening and a second verifier, as worked by hand."""

import dataclasses

import pytest

from rollwright.evaluation import Baseline
from rollwright.evaluation.measures import Beside, measure
from tests.cases import method_fixture
from tests.evaluation.held_out import judged, noon, protocol, row_of, scored


def of_counts(counts, samples):
    """`samples` attempts at each task, of which the first so many succeed."""
    return [scored(t, float(n < c), sample=n) for t, c in enumerate(counts) for n in range(samples)]


def rows_of(members, beside=None, *, samples, **changes):
    return measure(protocol(samples=samples, **changes), members, beside, step=7, now=noon())


def test_pass_hat_k_is_the_worked_chance_that_all_succeed():
    worked = method_fixture("M126.a")
    n, k = worked.input["n"], worked.input["k"]
    rows = rows_of(of_counts(worked.input["c"], n), samples=n, attempts=(1, k))
    due = worked.expect["pass_hat_k"]
    assert row_of(rows, "pass_hat_k", k=str(k)).value == pytest.approx(sum(due) / len(due), abs=1e-7)


def test_avg_at_n_is_the_worked_mean_of_the_tasks_shares():
    worked = method_fixture("M127.a")
    rows = rows_of(of_counts(worked.input["c"], worked.input["n"]), samples=worked.input["n"])
    assert row_of(rows, "avg_at_n", n="32").value == pytest.approx(worked.expect["dataset"])


def test_a_task_without_all_its_attempts_is_missing_from_what_needs_them():
    members = [*of_counts([2, 1], 2), scored(2, 1.0), scored(2, "grader_error", sample=1), scored(3, "timeout")]
    rows = rows_of(members, samples=2)
    assert row_of(rows, "success").num_tasks == 3
    assert row_of(rows, "avg_at_n", n="2").num_tasks == row_of(rows, "pass_at_k", k="2").num_tasks == 2
    assert [row_of(rows, "missing_tasks", k=k).value for k in ("1", "2")] == [1.0, 2.0]
    assert row_of(rows, "avg_at_n", n="2").value == 0.75


def votes(answers, right, samples, **changes):
    members = [scored(0, float(answer == right), sample=n) for n, answer in enumerate(answers)]
    beside = Beside(answers={m.trajectory_id: a for m, a in zip(members, answers, strict=True)})
    return rows_of(members, beside, samples=samples, **changes)


def test_a_tied_vote_is_worth_its_chance_as_worked():
    worked = method_fixture("M128.a")
    answers = [str(answer) for answer in worked.input["answers"]]
    rows = votes(answers, str(worked.input["correct"]), 5, attempts=(5,))
    assert row_of(rows, "maj_at_k", k="5").value == pytest.approx(worked.expect["expected_over_ties"])


def test_an_attempt_without_an_answer_casts_no_vote():
    rows = votes(["7", None, None, None], "7", 4)
    assert row_of(rows, "maj_at_k", k="4").value == 1.0
    # Of the pairs of four, half hold the one answer.
    assert row_of(rows, "maj_at_k", k="2").value == 0.5


def test_right_answers_that_are_written_otherwise_vote_together():
    members = [scored(0, float(n < 2), sample=n) for n in range(4)]
    answers = dict(zip([m.trajectory_id for m in members], ["1/2", "0.5", "3", "3"], strict=True))
    rows = rows_of(members, Beside(answers=answers), samples=4, attempts=(4,))
    assert row_of(rows, "maj_at_k", k="4").value == 0.5


def test_a_task_that_was_solved_without_an_answer_cannot_be_voted_on():
    members = [scored(0, 1.0), scored(0, 0.0, sample=1), scored(1, 1.0), scored(1, 0.0, sample=1)]
    answers = dict(zip([m.trajectory_id for m in members], [None, "2", "1", "2"], strict=True))
    row = row_of(rows_of(members, Beside(answers=answers), samples=2), "maj_at_k", k="2")
    assert (row.num_tasks, row.value) == (1, 0.5)


def test_where_no_episode_has_an_answer_there_is_no_vote():
    members = of_counts([1, 2], 2)
    assert not [r for r in rows_of(members, Beside(), samples=2) if r.metric == "maj_at_k"]


def test_coverage_is_the_worked_number_and_share_of_tasks():
    worked = method_fixture("M129.a")
    attempts = worked.input["attempts"]
    members = [scored(t, float(hit), sample=n) for t, row in enumerate(attempts) for n, hit in enumerate(row)]
    rows = rows_of(members, samples=4, attempts=(1, worked.input["k"]))
    assert row_of(rows, "cover_at_k", k="2").value == pytest.approx(worked.expect["expected_covered"])
    assert row_of(rows, "pass_at_k", k="2").value == pytest.approx(worked.expect["cover_frac"])


def test_the_share_of_tasks_at_a_success_rate_is_the_worked_one():
    worked = method_fixture("M129.b")
    rows = rows_of(
        of_counts([round(4 * p) for p in worked.input["p"]], 4),
        samples=4,
        cover_rates=tuple(sorted(worked.input["tau"])),
    )
    found = [row_of(rows, "cover_at_rate", rate=f"{tau:g}").value for tau in worked.input["tau"]]
    assert found == pytest.approx(worked.expect["cover_at_tau"], abs=1e-6)


def test_sharpening_is_the_worked_area_and_share_of_the_curve():
    worked = method_fixture("M132.c")
    rows = rows_of(of_counts(worked.input["c"], 8), samples=8, attempts=(1, 2, 3, 4))
    assert row_of(rows, "sharpening_area", k="4").value == pytest.approx(worked.expect["A"], abs=1e-6)
    assert row_of(rows, "sharpening", k="4").value == pytest.approx(worked.expect["S"], abs=1e-6)
    assert row_of(rows, "sharpening", k="4").interval_method == "task_bootstrap"


def test_without_headroom_the_share_is_undefined_and_the_area_0():
    rows = rows_of(of_counts([4, 4], 4), samples=4)
    assert row_of(rows, "sharpening_area", k="4").value == 0.0
    row = row_of(rows, "sharpening", k="4")
    assert (row.value, row.low, row.interval_method) == (None, None, "undefined")


def test_the_tax_is_measured_against_the_checkpoint_before_on_the_tasks_of_both():
    members = of_counts([8, 0], 8)
    names = [members[0].trajectory.task.task_id, members[8].trajectory.task.task_id]
    base = Baseline(step=3, counts={names[0]: (8, 4), names[1]: (8, 4), "made/gone": (8, 8)})
    row = row_of(rows_of(members, Beside(baseline=base), samples=8), "sharpening_tax_area", k="8", base="3")
    # Before, pass@k of 4 of 8 is 1 − C(4, k)/C(8, k); afterwards the curve is flat.
    curve = [1 - a / b for a, b in zip((4, 6, 4, 1, 0, 0, 0, 0), (8, 28, 56, 70, 56, 28, 8, 1), strict=True)]
    assert row.value == pytest.approx(sum(curve[-1] - value for value in curve[:-1]))
    assert row.num_tasks == 2
    assert not [r for r in rows_of(members, samples=8) if r.metric.startswith("sharpening_tax")]


def test_the_gap_is_what_the_reward_pays_and_the_gold_verifier_does_not():
    members = [
        judged(scored(0, 1.0), gold=1.0),
        judged(scored(1, 1.0), gold=0.0),
        judged(scored(2, 0.0), gold=0.0),
        judged(scored(3, 0.0), gold=0.0),
    ]
    rows = rows_of(members, samples=1, gold="1", gold_verifier="gold")
    named = {"verifier": "gold"}
    assert row_of(rows, "success").value == 0.5 and row_of(rows, "gold_success", **named).value == 0.25
    gap = row_of(rows, "gold_gap", **named)
    assert gap.value == 0.25 and gap.low is not None and gap.high is not None and gap.low < 0.25 < gap.high
    assert row_of(rows, "gold_disagreement", **named).value == 0.25


def test_an_attempt_that_either_could_not_judge_is_in_no_gap():
    members = [judged(scored(0, 1.0), gold="timeout"), judged(scored(1, 1.0), gold=1.0), scored(2, "grader_error")]
    rows = rows_of(members, samples=1, gold="1", gold_verifier="gold")
    gap = row_of(rows, "gold_gap", verifier="gold")
    assert (gap.value, gap.num_tasks) == (0.0, 1)
    assert row_of(rows, "gold_unscored", verifier="gold").value == 1.0


def test_a_gap_of_nothing_is_no_certainty():
    members = [judged(scored(n, float(n % 2)), gold=float(n % 2)) for n in range(10)]
    gap = row_of(rows_of(members, samples=1, gold="1", gold_verifier="gold"), "gold_gap", verifier="gold")
    # Wilson's bound of 0 of 10 on either side.
    assert (gap.low, gap.value, gap.high) == pytest.approx((-0.2775328, 0.0, 0.2775328), abs=1e-6)


def test_repeated_attempts_after_accidents_are_counted():
    first = scored(0, "infrastructure_failure")
    again = dataclasses.replace(scored(0, 1.0), trajectory=dataclasses.replace(scored(0, 1.0).trajectory, attempt=1))
    rows = rows_of([first, again], samples=1)
    assert row_of(rows, "retried_attempts").value == 1.0
    assert row_of(rows, "success").value == 1.0
