"""The count of demonstrated rows, in its three forms."""

import pytest

from tools.cases import load_case_titles
from tools.markers import MarkedTest, MarkError
from tools.rows import group_tests, load_rows, render_document, render_report, render_sample

ROWS = load_rows()
SHOWN = MarkedTest(path="tests/room/test_a.py", name="test_b", ids=("S002",), source="def test_b():\n    assert True")


def by_row(*found: MarkedTest) -> dict[str, list[MarkedTest]]:
    return group_tests([row.id for row in ROWS], found, "row")


def test_all_rows_of_the_survey_are_there():
    assert [row.id for row in ROWS] == [f"S{number:03}" for number in range(1, 497)]
    assert len({row.group for row in ROWS}) == 9
    assert all(row.works_when and row.depends_on for row in ROWS)


def test_all_cases_are_there():
    cases = load_case_titles()
    assert len({case.id for case in cases}) == len(cases) == 90
    assert {case.tier for case in cases} == {1, 2, 3}


def test_the_report_ends_with_the_count_of_all():
    report = render_report(ROWS, by_row(SHOWN))
    assert report.endswith("\n1 of 496 rows demonstrated\n")
    assert "S002 DAPO: tests/room/test_a.py::test_b" in report
    assert "not yet: S001 S003" in report


def test_the_sample_shows_the_row_beside_the_source_of_its_tests():
    sample = render_sample(ROWS, by_row(SHOWN), size=3, seed=0)
    assert "preset dapo reproduces its documented values" in sample
    assert SHOWN.source in sample


def test_the_document_names_every_row_once():
    document = render_document(ROWS, by_row(SHOWN), {ROWS[-1].id: "needs a part"})
    assert all(document.count(f"\n| {row.id} |") == 1 for row in ROWS)
    assert document.endswith("| *not yet:* needs a part |\n")


def test_a_mark_with_an_unknown_id_is_refused():
    stray = MarkedTest(path="tests/room/test_a.py", name="test_c", ids=("S999",), source="")
    with pytest.raises(MarkError, match="S999"):
        by_row(stray)
