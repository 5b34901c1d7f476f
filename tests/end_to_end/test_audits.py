"""The verifiers of a stored run are looked at: by a person's labels, a second verifier, repetition, and attacks."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from rollwright.cli.main import run_command
from rollwright.evidence import content_hash, query
from rollwright.recipes.audits.stored import AuditedRun
from rollwright.record.metrics import metric_named
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


def test_the_numbers_of_an_audit_are_kept_as_metrics_behind_the_steps(
    finished: Finished, tmp_path: Path, capsys
) -> None:
    run, sheet = tmp_path / "run", tmp_path / "sheet.jsonl"
    shutil.copytree(finished.path, run)
    before = content_hash(run)
    audited(capsys, str(run), "--sheet", str(sheet), "--sample", "12")
    lines = [json.loads(line) for line in sheet.read_text().splitlines()]
    with AuditedRun(run) as opened:
        accepted = {row.trajectory_id for row in opened.rows if row.is_accepted}
    wrong = next(line["trajectory_id"] for line in lines if line["trajectory_id"] in accepted)
    for line in lines:
        line["label"] = line["trajectory_id"] in accepted and line["trajectory_id"] != wrong
    sheet.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    asked = ["--labels", str(sheet), "--sample", "4", "--against", FLAKY, "--repeat", "2", "--perturb", "--probe"]
    first = audited(capsys, str(run), *asked, "--keep")
    second = audited(capsys, str(run), "--sample", "4", "--repeat", "2", "--keep")
    assert (first["num_kept"], second["num_kept"]) == (14, 3)
    assert content_hash(run) == before
    names = "SELECT name, labels, value, num_items, unit FROM metrics WHERE labels['audit'] IS NOT NULL"
    rows = cast("Sequence[tuple[str, dict[str, str], float, int, str]]", query(run, names).rows)
    kept = {(name, tuple(sorted(labels.items()))[1:]): tuple(row) for name, labels, *row in rows}
    assert kept["verifier/hack_confirmed", (("of", "labels"),)] == (1 / 6, 6, "fraction")
    upper = kept["verifier/hack_confirmed", (("bound", "upper"), ("of", "labels"))][0]
    assert upper == exact_upper_bound(1, 6)
    due = first["labeled"]["overall"]
    assert kept["verifier/fp_rate", ()][0] == due["false_positive_rate"]
    assert kept["verifier/fn_rate", ()][0] == 1.0 - due["sensitivity"]
    assert kept["verifier/disagreement", (("verifier", FLAKY),)][0] == 0.5
    assert kept["verifier/flaky_rate", ()][0] == 0.0
    for name, labels in kept:
        entry = metric_named(name)
        assert entry is not None and {label for label, _ in labels} <= set(entry.labels), (name, labels)
        assert kept[name, labels][2] == entry.unit


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


def told(capsys, *arguments: str) -> str:
    assert run_command(["audit", *arguments]) == 0
    return capsys.readouterr().out


def test_a_person_is_told_what_was_counted_of_how_many_and_what_to_do_next(
    finished: Finished, tmp_path: Path, capsys
) -> None:
    run, sheet = str(finished.path), tmp_path / "sheet.jsonl"
    with AuditedRun(finished.path) as opened:
        num, accepted = len(opened.rows), {row.trajectory_id for row in opened.rows if row.is_accepted}
    shown = told(capsys, run)
    assert f"{num} of {num} trajectories have a reward and are counted; accepted: a reward of at least 1" in shown
    assert f"Next: `rollwright audit {run} --sheet sheet.jsonl` writes 40 of them" in shown
    assert "looked at" not in shown, "nothing was"
    drawn = f"12 trajectories that were drawn of {num} (6 accepted, 6 rejected)"
    shown = told(capsys, run, "--sheet", str(sheet), "--sample", "12", "--against", FLAKY, "--repeat", "2")
    assert f"sheet: the {drawn} are written to {sheet}" in shown
    assert f"`rollwright audit {run} --labels {sheet}`" in shown
    assert f"gave a number for 12 of the {drawn}; on 6 of these 12 the two disagree, 0.500 [" in shown
    assert f"judged 2 times each: on 0 of the {drawn} the outcome changed, 0.000 [" in shown
    lines = [json.loads(line) for line in sheet.read_text().splitlines()]
    wrong = next(line["trajectory_id"] for line in lines if line["trajectory_id"] in accepted)
    for line in lines:
        line["label"] = line["trajectory_id"] in accepted and line["trajectory_id"] != wrong
    sheet.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    shown = told(capsys, run, "--labels", str(sheet))
    rows = [line.split() for line in shown.splitlines() if line.startswith("all ")]
    assert rows[1][:6] == ["all", "accepted", str(len(accepted)), "6", "1", "0.167"]
    assert rows[2][:6] == ["all", "rejected", str(num - len(accepted)), "6", "0", "0.000"]
    assert f"pass rate: the verifiers accept {len(accepted)} of {num} (" in shown
    assert f"  accepted, and labeled wrong: {wrong}" in shown
    assert "WHERE trajectory_id = " in shown


def test_attacks_that_are_paid_are_counted_by_kind(finished: Finished, capsys) -> None:
    probed = audited(capsys, str(finished.path), "--sample", "3", "--probe")["probed"]
    shown = told(capsys, str(finished.path), "--sample", "3", "--probe")
    assert f"attacks: {len(probed['paid'])} of {probed['num']} that were judged were paid" in shown
    kinds = {kind for _, kind, _ in probed["paid"]}
    lines = [line for line in shown.splitlines() if line.startswith("  paid: ")]
    assert len(lines) == len(kinds)
    for kind in kinds:
        num = sum(other == kind for _, other, _ in probed["paid"])
        assert sum(f"paid: {kind}, {num} of {probed['by_kind'][kind]}, such as " in line for line in lines) == 1


def test_judging_once_is_refused_as_repetition(finished: Finished, capsys) -> None:
    assert run_command(["audit", str(finished.path), "--repeat", "1"]) == 2
    assert "judged once, nothing can change; give --repeat at least 2" in capsys.readouterr().err
