"""A stored run scored again: the same verifiers say the same, other ones stand beside them, and no model is loaded."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import RunFolder, check, content_hash, query
from tests.end_to_end.conftest import Finished

STRICT = "tests.end_to_end.test_scoring:never"


def never():
    """A verifier that pays nobody."""
    from rollwright.verifiers import FunctionVerifier, Grade

    return FunctionVerifier(name="never", revision="1", grade=lambda submission: Grade(value=0.0, evidence="never"))


def broken():
    """A verifier that fails on every episode."""
    from rollwright.verifiers import FunctionVerifier, Grade

    def grade(submission) -> Grade:
        raise RuntimeError("out of order")

    return FunctionVerifier(name="broken", revision="1", grade=grade)


NOT_UTF8 = b"/data/caf\xe9.py".decode("utf-8", "surrogateescape")
"""A path of a file system that is not UTF-8, as Python reads it."""


def misplaced():
    """A verifier whose infrastructure fails, and says so in text that is not UTF-8."""
    from rollwright.verifiers import FunctionVerifier, Grade

    def grade(submission) -> Grade:
        try:
            raise FileNotFoundError(2, "no such file", NOT_UTF8)
        except FileNotFoundError as error:
            raise RuntimeError(f"the grader is not there: {NOT_UTF8}") from error

    return FunctionVerifier(name="misplaced", revision="1", grade=grade)


def unreachable():
    """The same from a verifier that makes its verdicts itself."""
    from rollwright.record import Verdict

    class Unreachable:
        name, revision, scope, deadline_s = "unreachable", "1", "trajectory", 10.0

        async def verify(self, submissions):
            return [
                Verdict(
                    trajectory_id=submission.trajectory_id,
                    verifier=self.name,
                    revision=self.revision,
                    scope="trajectory",
                    outcome="infrastructure",
                    evidence=f"Traceback (most recent call last): {NOT_UTF8}",
                )
                for submission in submissions
            ]

    return Unreachable()


@pytest.fixture
def run(finished: Finished, tmp_path: Path) -> Path:
    shutil.copytree(finished.path, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "checkpoints")  # no weights: scoring needs no model
    return tmp_path / "run"


def scored(capsys, *arguments: str) -> tuple[list[dict], dict]:
    assert run_command(["score", *arguments, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return lines[:-1], lines[-1]


@pytest.mark.row("S401")
def test_unchanged_verifiers_give_identical_verdicts_and_what_was_trained_on_stays(run, capsys):
    before = content_hash(run)
    changes, result = scored(capsys, str(run), "--reason", "a second look")
    assert changes == []
    assert result["scoring"] == 1
    assert result["trajectories"] > 40
    assert [v["verifier"] for v in result["verifiers"]] == ["parity", "reward"]
    assert all(v["same"] == v["num"] == result["trajectories"] and v["errors"] == 0 for v in result["verifiers"])
    assert content_hash(run) == before
    assert check(run).findings == ()
    pairs = query(
        run,
        "SELECT new.value, old.value, new.verifier_revision = old.verifier_revision "
        "FROM verdicts new JOIN verdicts old "
        "USING (trajectory_id, verifier) WHERE new.scoring = 1 AND old.scoring = 0",
    ).rows
    assert len(pairs) == result["trajectories"]
    assert all(new == old and same for new, old, same in pairs)
    (kept,) = query(
        run,
        "SELECT evidence, value, reward, reward_rule FROM verdicts JOIN trajectories USING (trajectory_id) "
        "WHERE scoring = 1 AND verifier = 'reward' LIMIT 1",
    ).rows
    evidence, value, reward, rule = kept
    assert json.loads(str(evidence)) == {"reason": "a second look", "was": reward, "was_rule": rule}
    assert value == reward
    (event,) = [e for e in RunFolder.open(run).events() if e.kind == "rescored"]
    assert (event.text, event.fields["scoring"]) == ("a second look", "1")


@pytest.mark.row("S401")
def test_another_verifier_is_a_second_scoring_with_its_changes_named(run, capsys):
    scored(capsys, str(run))
    changes, result = scored(capsys, str(run), "--verifier", STRICT)
    (summary,) = result["verifiers"]
    assert (summary["verifier"], summary["compared_with"]) == ("never", "reward")
    assert len(changes) == summary["num"] - summary["same"] > 0
    assert all(c["after"] == 0.0 and c["before"] != 0.0 and c["evidence"] == "never" for c in changes)
    counted = query(run, "SELECT scoring, verifier, count(*) FROM verdicts GROUP BY ALL ORDER BY ALL").rows
    assert {(scoring, name) for scoring, name, _ in counted} == {
        (0, "parity"),
        (1, "parity"),
        (1, "reward"),
        (2, "never"),
    }
    low, high = summary["low"], summary["high"]
    assert 0 <= low <= summary["agreement"] <= high <= 1


def test_verdicts_written_elsewhere_leave_the_run_as_it_is(run, capsys, tmp_path):
    commits = sorted(p.name for p in (run / "commits").iterdir())
    _, result = scored(capsys, str(run), "--verifier", STRICT, "--out", str(tmp_path / "verdicts.jsonl"))
    assert result["scoring"] is None
    lines = [json.loads(line) for line in (tmp_path / "verdicts.jsonl").read_text().splitlines()]
    assert len(lines) == result["trajectories"]
    assert {line["outcome"] for line in lines} == {0.0}
    assert sorted(p.name for p in (run / "commits").iterdir()) == commits
    assert not any(e.kind == "rescored" for e in RunFolder.open(run).events())


def test_a_verifier_that_fails_gives_errors_and_no_numbers(run, capsys):
    _, result = scored(capsys, str(run), "--verifier", "tests.end_to_end.test_scoring:broken")
    (summary,) = result["verifiers"]
    assert summary["errors"] == summary["num"]
    assert summary["agreement"] is None
    rows = query(run, "SELECT DISTINCT status, error_cause, value FROM verdicts WHERE verifier = 'broken'").rows
    assert rows == (("error", "grader_error", None),)


def test_a_person_sees_agreement_changes_and_the_scale_of_each_part(run, capsys):
    assert run_command(["score", str(run)]) == 0
    shown = capsys.readouterr().out
    assert "kept as scoring 1 of the run" in shown
    assert "parts of the reward, raw, by source of the tasks" in shown
    assert run_command(["score", str(run), "--verifier", "nonsense"]) == 2
    assert "no verifier 'nonsense'" in capsys.readouterr().err
    parity = "tests.end_to_end.parts:parity"
    assert run_command(["score", str(run), "--verifier", "recipe", "--verifier", parity]) == 2
    assert "two of the verifiers are named 'parity'" in capsys.readouterr().err


def test_a_verifier_may_lie_in_the_current_folder(run, capsys, tmp_path, monkeypatch):
    module = "from tests.end_to_end.test_scoring import never as mine\n"
    (tmp_path / "grading_of_mine.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    scored(capsys, str(run), "--verifier", "grading_of_mine:mine", "--out", "verdicts.jsonl")
    assert "never" in Path("verdicts.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["misplaced", "unreachable"])
@pytest.mark.parametrize("form", [(), ("--json",)], ids=["person", "json"])
def test_a_failure_whose_text_is_not_utf8_is_stored_and_shown(run, capsys, tmp_path, name, form):
    verifier = f"tests.end_to_end.test_scoring:{name}"
    reason = f"the grader moved to {NOT_UTF8}"
    assert run_command(["score", str(run), "--verifier", verifier, "--reason", reason, *form]) == 0
    assert "caf" in capsys.readouterr().out
    rows = query(run, f"SELECT DISTINCT status, value, evidence FROM verdicts WHERE verifier = '{name}'").rows
    assert [(status, value) for status, value, _ in rows] == [("error", None)]
    assert "/data/caf" in str(rows[0][2])
    assert check(run).findings == ()
    (event,) = [e for e in RunFolder.open(run).events() if e.kind == "rescored"]
    assert "the grader moved to /data/caf" in event.text
    out = tmp_path / "verdicts.jsonl"
    assert run_command(["score", str(run), "--verifier", verifier, "--out", str(out), *form]) == 0
    assert "/data/caf" in json.loads(out.read_text(encoding="utf-8").splitlines()[0])["evidence"]


def test_a_reason_that_is_not_utf8_is_kept_with_the_reward(run, capsys):
    scored(capsys, str(run), "--reason", f"moved to {NOT_UTF8}")
    ((evidence,),) = query(run, "SELECT DISTINCT evidence FROM verdicts WHERE verifier = 'reward' LIMIT 1").rows
    assert json.loads(str(evidence))["reason"].startswith("moved to /data/caf")
