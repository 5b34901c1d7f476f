"""Reports of benchmarks: targets, tables, and what counts as a fall."""

from dataclasses import replace

import pytest

from benchmarks.pages import BEGIN, END, NOT_RUN, readme_block, replace_block, speed_page
from benchmarks.regression import Short, compared, read_standings, standing_of, write_standings
from benchmarks.report import Report, Row, failed, read_report, write_report
from benchmarks.suite import SCRIPTS, Script, run_script

SETTING = {
    "date": "2026-01-01",
    "processor": "a processor",
    "cores": 2,
    "memory_gib": 24,
    "threads": 1,
    "versions": {"torch": "2"},
    "command": "make bench",
}
FASTER = Row(what="a step", ours=1.0, peer=2.0, ratio=2.0, low=1.9, high=2.1, unit="s", target=1.5)
FLOOR = Row(what="the learner", ours=3.0, peer=2.0, ratio=1.5, low=1.4, high=1.7, target=1.6, target_side="at_most")
REPORT = Report(name="against_trl", rows=(FASTER, FLOOR, replace(FASTER, what="a token", target=None)))


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (FASTER, True),
        (replace(FASTER, ratio=1.4), False),
        (FLOOR, True),
        (replace(FLOOR, ratio=1.7), False),
        (replace(FASTER, ratio=None), False),
        (replace(FASTER, target=None), None),
    ],
)
def test_a_target_is_met_on_its_own_side(row, is_met):
    assert row.is_met is is_met


def test_a_report_is_read_as_it_was_written(tmp_path):
    write_report(REPORT, tmp_path / "made" / "report.json")
    assert read_report(tmp_path / "made" / "report.json") == REPORT


def test_a_misspelt_key_of_a_report_is_refused(tmp_path):
    (tmp_path / "report.json").write_text('{"name": "x", "rows": [{"what": "x", "our": 1}]}')
    with pytest.raises(TypeError, match="our"):
        read_report(tmp_path / "report.json")


def test_the_readme_shows_rows_with_a_target_and_those_that_failed_and_nothing_else_changes():
    reports = [REPORT, failed("engine", "it ended with code 1"), failed("memory", NOT_RUN, "Memory")]
    text = replace_block(f"before\n{BEGIN}\nold\n{END}\nafter", readme_block(reports, SETTING))
    assert "| a step | 2 (1.9 to 2.1) | at least 1.5: met |" in text
    assert "| the learner | 1.5 (1.4 to 1.7) | at most 1.6: met |" in text
    assert "| engine | not measured: it ended with code 1 |  |" in text
    assert "Not run yet: Memory." in text and "| Memory" not in text
    assert "a token" not in text and "old" not in text
    assert text.startswith("before\n") and text.endswith("\nafter")
    assert "a processor, 2 cores, 24 GiB" in text
    assert "a token" in speed_page(reports, SETTING)


def test_a_text_without_a_place_for_the_table_is_refused():
    with pytest.raises(ValueError, match="no place for the table"):
        replace_block("before", "block")


def test_a_ratio_falls_only_beyond_its_spread(tmp_path):
    write_standings({"against_trl": standing_of(REPORT, Short(("--repetitions", "3")))}, tmp_path / "kept.json")
    standing = read_standings(tmp_path / "kept.json")["against_trl"]
    assert standing.arguments == ("--repetitions", "3")
    assert list(standing.rows) == ["a step", "the learner"]
    within = Report(name="against_trl", rows=(replace(FASTER, ratio=1.7), replace(FLOOR, ratio=1.7)))
    beyond = Report(name="against_trl", rows=(replace(FASTER, ratio=1.5), replace(FLOOR, ratio=1.9)))
    assert compared(standing, within) == []
    fell, rose = compared(standing, beyond)
    assert fell == "a step: 2.00 fell to 1.50, by more than its spread of 20%."
    assert rose == "the learner: 1.50 rose to 1.90, by more than its spread of 20%."
    assert "was not measured now (it broke)" in compared(standing, failed("against_trl", "it broke"))[0]


def test_kept_are_ratios_of_two_sides_and_of_rows_that_the_short_run_has():
    error = Row(what="a step, its error", ours=None, peer=None, ratio=5e-7, target=1e-5, target_side="at_most")
    long = Report(name="engine", rows=(FASTER, FLOOR, error))
    assert list(standing_of(long, Short((), rows="a step")).rows) == ["a step"]


def test_a_script_that_fails_is_a_row_that_says_why(tmp_path):
    missing = Script("no_such_script", "none")
    assert "there is no benchmarks.no_such_script" in run_script(missing, tmp_path / "a.json", threads=1).rows[0].note
    refuses = Script("paired", "takes no arguments and writes nothing")
    assert "ended with code 0" in run_script(refuses, tmp_path / "b.json", threads=1).rows[0].note
    assert read_report(tmp_path / "b.json").rows[0].ratio is None


def test_every_script_of_the_suite_has_a_name_of_its_own():
    assert len({script.name for script in SCRIPTS}) == len(SCRIPTS)
