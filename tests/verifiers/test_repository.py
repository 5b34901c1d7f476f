"""Runs of tests are read for what was seen, and a repair is judged by calls whose right values stay outside."""

import pytest

from rollwright.record import Task
from rollwright.tasks import SplitSizes, repository_of, repository_strata
from rollwright.verifiers import Grade, TestRun, grade_run, judged_files
from tests.cases import case


@pytest.fixture(scope="module")
def task() -> Task:
    return repository_strata(SplitSizes(train=4, held_out=0), seed=0)[0].train[0]


def run_of(log) -> TestRun:
    """A log of the case as what a run of tests saw."""
    outcomes = {name: seen == "pass" for name, seen in log.items() if name.startswith("t") and name[1:].isdigit()}
    return TestRun(outcomes=outcomes, exit_code=log["exit"], ending="memory_limit" if "no_output" in log else "ended")


@pytest.mark.case("F74")
def test_only_required_tests_that_were_seen_to_pass_are_paid(task):
    given, expect = case("F74").input, case("F74").expect
    for log, reward in zip(given["logs"], expect["reward"], strict=True):
        grade = grade_run(run_of(log), fail_to_pass=given["required"], pass_to_pass=given["must_keep"])
        assert isinstance(grade, Grade)
        assert grade.value == (reward if isinstance(reward, int) else 0), log
    lost = TestRun(outcomes={}, exit_code=137, ending="lost")
    assert grade_run(lost, fail_to_pass=given["required"], pass_to_pass=given["must_keep"]) == "infrastructure"
    assert expect["test_files_restored_before_run"]
    repository = repository_of(task)
    edited = {path: "pass" for path in repository.files} | {"tests/test_more.py": "", "p/conftest.py": "import os"}
    judged = judged_files(repository, edited)
    own = {path for path in repository.files if path.startswith("tests/")}
    assert {path for path in judged if judged[path] != "pass"} == own
    assert all(judged[path] == repository.files[path] for path in own)


def test_a_run_without_required_tests_pays_nothing():
    grade = grade_run(TestRun(outcomes={}, exit_code=0), fail_to_pass=[], pass_to_pass=[])
    assert isinstance(grade, Grade) and grade.value == 0


def test_the_shares_of_both_kinds_are_kept_beside_the_grade():
    run = TestRun(outcomes={"a": True, "b": False, "c": True}, exit_code=0)
    grade = grade_run(run, fail_to_pass=["a", "b"], pass_to_pass=["c"])
    assert isinstance(grade, Grade)
    assert [(part.name, part.value) for part in grade.components] == [("fail_to_pass", 0.5), ("pass_to_pass", 1.0)]
    assert "the first without a pass: b" in grade.evidence
