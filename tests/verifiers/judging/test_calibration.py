"""A judge is measured before it pays: agreement by set, drift, bias probes, and the spread of several."""

import asyncio
import json
from dataclasses import replace

import pytest

from rollwright.verifiers import FunctionVerifier, Grade, VerifierSetupError
from rollwright.verifiers.answers import AnswerRule
from rollwright.verifiers.ensemble import EnsembleVerifier
from rollwright.verifiers.judging.calibration import (
    CalibrationCase,
    CalibrationLimits,
    CalibrationReport,
    CalibrationSet,
    JudgeRefusedError,
    calibrate,
    read_calibration,
    refuse_drifted,
    refuse_miscalibrated,
)
from rollwright.verifiers.judging.grade_judge import EquivalenceJudge, GradeJudge
from rollwright.verifiers.judging.pairwise import PairJudge
from rollwright.verifiers.judging.probes import BiasLimits, ProbePair, probe_biases, refuse_biased
from rollwright.verifiers.judging.prompting import Shown
from tests.verifiers.judging.judges import FunctionJudge, asker_of
from tests.verifiers.judging.test_pairwise import by_length, said
from tests.verifiers.submissions import submitted, verdict_of

CASES = CalibrationSet(
    cases=tuple(
        CalibrationCase(question="q?", answer="a", completion=f"{word} {n}", label=word != "bad", stratum=stratum)
        for stratum, words in (("easy", ("good", "bad")), ("hard", ("subtle", "bad")))
        for word in words
        for n in range(5)
    )
)


def grader(words: dict[str, str]) -> GradeJudge:
    """Grades by a word in the answer."""

    def reply(prompt: str) -> str:
        word = prompt.split("[BEGIN DATA]\n")[1].split()[0]
        return f"GRADE: {words[word]}"

    return GradeJudge(asker=asker_of(FunctionJudge(reply=reply), attempts=1))


def report_of(words: dict[str, str], cases: CalibrationSet = CASES) -> CalibrationReport:
    return asyncio.run(calibrate(grader(words), cases))


@pytest.mark.row("S419")
def test_a_calibrated_judge_passes_and_its_report_names_set_and_version():
    report = report_of({"good": "10", "subtle": "8", "bad": "0"})
    assert report.set_version == CASES.version
    assert {name: a.share for name, a in report.strata.items()} == {"all": 1.0, "easy": 1.0, "hard": 1.0}
    assert report.strata["hard"].brier == pytest.approx(0.02)
    assert report.strata["all"].kappa == 1.0
    assert 0.83 < report.strata["all"].accuracy.low < 0.84  # Wilson of 20 of 20
    refuse_miscalibrated(report, CalibrationLimits())
    other = replace(CASES, cases=(*CASES.cases[:-1], replace(CASES.cases[-1], label=True)))
    assert other.version != CASES.version


@pytest.mark.row("S419")
def test_a_judge_that_errs_on_one_set_alone_is_refused_with_the_numbers_of_that_set():
    report = report_of({"good": "10", "subtle": "1", "bad": "0"})
    assert (report.strata["easy"].share, report.strata["hard"].share) == (1.0, 0.5)
    assert report.strata["hard"].false_rejects == 5
    with pytest.raises(JudgeRefusedError, match=r"0\.500 \[0\.\d+, 0\.\d+\] of set hard"):
        refuse_miscalibrated(report, CalibrationLimits())


@pytest.mark.row("S419")
def test_drift_beyond_the_limit_blocks_a_judge_and_so_does_another_set():
    kept = report_of({"good": "10", "subtle": "8", "bad": "0"}).to_json()
    json.loads(kept)
    refuse_drifted(report_of({"good": "9", "subtle": "7", "bad": "1"}), kept, CalibrationLimits())
    with pytest.raises(JudgeRefusedError, match=r"drifted.*set hard from 1\.0 to 0\.5"):
        refuse_drifted(report_of({"good": "10", "subtle": "2", "bad": "0"}), kept, CalibrationLimits())
    fewer = CalibrationSet(cases=CASES.cases[:-1])
    with pytest.raises(JudgeRefusedError, match="cannot be compared"):
        refuse_drifted(report_of({"good": "10", "subtle": "8", "bad": "0"}, fewer), kept, CalibrationLimits())


def test_cases_without_a_number_are_errors_and_too_many_refuse_the_judge():
    report = report_of({"good": "10", "subtle": "who knows", "bad": "0"})
    assert (report.strata["hard"].num, report.strata["hard"].num_errors) == (5, 5)
    assert report.strata["hard"].share == 1.0
    with pytest.raises(JudgeRefusedError, match="5 of 10 cases of set hard got no number"):
        refuse_miscalibrated(report, CalibrationLimits())


@pytest.mark.row("S367")
def test_equivalence_is_measured_on_the_hard_set_apart_from_the_easy_one(tmp_path):
    easy = [("7", "7", True), ("7", "8", False), ("Paris", "paris", True)]
    hard = [("0.5", "one half", True), ("0.5", "one third", False), ("2/4", "half of it", True), ("x", "y", False)]
    rows = [
        {"task": {"question": "q?", "answer": a}, "completion": f"answer: {c}", "label": label, "kind": kind}
        for kind, cases in (("easy", easy), ("hard", hard))
        for a, c, label in cases
    ]
    (tmp_path / "cases.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    client = FunctionJudge(reply=lambda p: f"VERDICT: {'EQUIVALENT' if 'one half' in p else 'DIFFERENT'}")
    judge = EquivalenceJudge(asker=asker_of(client), shown=Shown(rule=AnswerRule()))
    report = asyncio.run(calibrate(judge, read_calibration(tmp_path / "cases.jsonl")))
    assert (report.strata["easy"].share, report.strata["hard"].share) == (1.0, 0.75)
    assert len(client.shown) == len(hard)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "line 1 is no JSON"),
        ("{}", "line 1 has no `task`"),
        ('{"task": {"question": "q", "answer": "a"}, "completion": "c", "label": 1}', "label is true or false"),
    ],
)
def test_a_line_that_is_no_case_is_named(tmp_path, line, problem):
    (tmp_path / "cases.jsonl").write_text(line)
    with pytest.raises(VerifierSetupError, match=problem):
        read_calibration(tmp_path / "cases.jsonl")


PAIRS = [ProbePair(question="q?", own=f"mine {n}", other=f"else {n}") for n in range(6)]


def probed(reply) -> tuple:
    report = asyncio.run(probe_biases(PairJudge(asker=asker_of(FunctionJudge(reply=reply), attempts=1)), PAIRS))
    try:
        refuse_biased(report, BiasLimits())
    except JudgeRefusedError as error:
        return report, str(error)
    return report, ""


@pytest.mark.row("S406")
def test_a_fair_judge_passes_the_probes():
    report, problem = probed(lambda _: "SCORE A: 3\nSCORE B: 3\nRANKING: 3.5")
    assert (report.position_gap, report.length_delta, report.own_delta, report.flipped) == (0.0, 0.0, 0.0, None)
    assert problem == ""


@pytest.mark.row("S406")
@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        (lambda _: "SCORE A: 5\nSCORE B: 1\nRANKING: 2", "the order moves it by 0.600"),
        (by_length, "empty words move it by +0.500"),
        (
            lambda p: (
                f"SCORE A: 3\nSCORE B: 3\nRANKING: {2 if 'mine' in said(p)[0] else 5 if 'mine' in said(p)[1] else 3.5}"
            ),
            "its own answers move it by +0.300",
        ),
        (lambda _: "no idea", "12 comparisons of the probes were not answered"),
    ],
)
def test_a_judge_that_is_swayed_is_refused_by_the_probe_that_shows_it(reply, problem):
    _, found = probed(reply)
    assert problem in found


def fixed(name: str, value: float | None) -> FunctionVerifier:
    def grade(_) -> Grade:
        if value is None:
            raise RuntimeError("away")
        return Grade(value=value)

    return FunctionVerifier(name=name, revision="1", grade=grade)


@pytest.mark.row("S407")
def test_graders_that_disagree_pay_less_than_ones_that_agree_on_the_same_mean():
    agreeing = EnsembleVerifier(members=(fixed("a", 0.6), fixed("b", 0.6), fixed("c", 0.6)), penalty=0.5)
    split = EnsembleVerifier(members=(fixed("a", 0.0), fixed("b", 0.8), fixed("c", 1.0)), penalty=0.5)
    first, second = (verdict_of(e, submitted("x")) for e in (agreeing, split))
    assert first.outcome == pytest.approx(0.6)
    components = {part.name: part.value for part in second.components}
    assert components["spread"] == 1.0 and components["mean"] == pytest.approx(0.6)
    assert second.outcome == pytest.approx(0.6 - 0.5 * components["variance"])
    assert {"a", "b", "c"} < set(components)


def test_an_ensemble_of_too_few_numbers_has_none():
    members = (fixed("a", 0.5), fixed("b", None), fixed("c", 0.7))
    assert verdict_of(EnsembleVerifier(members=members), submitted("x")).outcome == "grader_error"
    two = verdict_of(EnsembleVerifier(members=members, min_members=2), submitted("x"))
    assert two.outcome == pytest.approx(0.6 - 0.01)
    assert "b failed: RuntimeError: away" in two.evidence
    with pytest.raises(VerifierSetupError):
        EnsembleVerifier(members=members[:1])
