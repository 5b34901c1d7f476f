"""The verifiers of a stored run are looked at: by a person's labels, a second verifier, repetition, and attacks."""

import json
from pathlib import Path

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import content_hash
from rollwright.recipes.audits.stored import AuditedRun
from rollwright.statistics.verifier_audit import exact_upper_bound
from tests.end_to_end.conftest import Finished

FLAKY = "tests.end_to_end.test_audits:always"


def always():
    """A verifier that pays everybody."""
    from rollwright.verifiers import FunctionVerifier, Grade

    return FunctionVerifier(name="always", revision="1", grade=lambda submission: Grade(value=1.0))


def audited(capsys, *arguments: str) -> dict:
    assert run_command(["audit", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.row("S389")
def test_a_labeled_sheet_gives_error_rates_with_intervals_and_the_pass_rate_behind_them(
    finished: Finished, tmp_path: Path, capsys
) -> None:
    before, sheet = content_hash(finished.path), tmp_path / "sheet.jsonl"
    first = audited(capsys, str(finished.path), "--sheet", str(sheet), "--sample", "12")
    lines = [json.loads(line) for line in sheet.read_text().splitlines()]
    assert len(lines) == first["num_sampled"] == 12
    assert {line["label"] for line in lines} == {None}
    assert "reward" not in lines[0]
    with AuditedRun(finished.path) as run:
        accepted = {row.trajectory_id for row in run.rows if row.is_accepted}
        assert (len(accepted), len(run.rows) - len(accepted)) == (first["num_accepted"], first["num_rejected"])
    assert sum(line["trajectory_id"] in accepted for line in lines) == 6
    wrong = next(line["trajectory_id"] for line in lines if line["trajectory_id"] in accepted)
    for line in lines:
        line["label"] = line["trajectory_id"] in accepted and line["trajectory_id"] != wrong
    sheet.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    result = audited(capsys, str(finished.path), "--labels", str(sheet))["labeled"]
    overall, share = result["overall"], 1 / 6
    assert overall["false_positives"] == pytest.approx(share * len(accepted))
    assert overall["false_negatives"] == 0.0
    assert overall["false_accepts"]["low"] < share < overall["false_accepts"]["high"]
    passed = len(accepted) / (first["num_accepted"] + first["num_rejected"])
    assert overall["corrected_pass_rate"] == pytest.approx(passed * (1 - share))
    assert content_hash(finished.path) == before


def test_equal_seeds_draw_equal_sheets_and_another_seed_another(finished: Finished, tmp_path: Path, capsys) -> None:
    drawn = []
    for place, seed in enumerate(("1", "1", "2")):
        path = tmp_path / f"{place}.jsonl"
        audited(capsys, str(finished.path), "--sheet", str(path), "--sample", "8", "--seed", seed)
        drawn.append(path.read_text())
    assert drawn[0] == drawn[1] != drawn[2]


def test_a_second_verifier_and_repetition_are_reported(finished: Finished, capsys) -> None:
    result = audited(capsys, str(finished.path), "--sample", "10", "--against", FLAKY, "--repeat", "3", "--perturb")
    other, again = result["disagreement"], result["flakiness"]
    assert (other["num"], other["num_errors"], len(other["run_alone"])) == (10, 0, 0)
    assert len(other["other_alone"]) == 5
    assert other["rate"]["low"] < 0.5 < other["rate"]["high"]
    assert (again["num"], again["repeats"], again["flaky"]) == (10, 3, [])
    assert result["retold"] == []  # Sums name no entities.


def test_attacks_on_the_verifiers_of_a_run_are_named_where_they_are_paid(finished: Finished, capsys) -> None:
    result = audited(capsys, str(finished.path), "--sample", "3", "--probe")["probed"]
    assert result["num"] > 40
    assert result["upper_bound"] == pytest.approx(exact_upper_bound(len(result["paid"]), result["num"]))
    assert result["paid"], "a reward for the parity of what was said is paid for attacks"
    code = run_command(["audit", str(finished.path), "--sample", "3", "--probe", "--fail-on", "paid_probes"])
    assert code == 1
    assert "paid: " in capsys.readouterr().out


def test_what_is_no_run_or_no_sheet_is_refused(finished: Finished, tmp_path: Path, capsys) -> None:
    sheet = tmp_path / "sheet.jsonl"
    sheet.write_text('{"trajectory_id": "t999999-00-0", "label": true}\n')
    assert run_command(["audit", str(finished.path), "--labels", str(sheet)]) == 2
    assert "is no judged trajectory" in capsys.readouterr().err
    sheet.write_text('{"trajectory_id": "t999999-00-0", "label": null}\n')
    assert run_command(["audit", str(finished.path), "--labels", str(sheet)]) == 2
    assert "no line of" in capsys.readouterr().err
    assert run_command(["audit", "math"]) == 2
    assert "give labeled cases by --cases" in capsys.readouterr().err
    assert run_command(["audit", str(tmp_path / "nothing")]) == 1
