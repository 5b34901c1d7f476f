"""`engine check`: a line an item, and an exit code that a script reads."""

import json

from rollwright.cli.main import run_command
from rollwright.engines.conformance import ITEMS


def test_an_engine_that_keeps_the_protocol_ends_with_0_and_a_line_an_item(capsys):
    assert run_command(["engine", "check", "scripted"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(ITEMS) + 2
    assert lines[1].startswith("passed  greedy")
    assert lines[-1] == "scripted: 21 passed, 0 failed, 2 not checked"


def test_a_failed_item_ends_with_1(capsys):
    assert run_command(["engine", "check", "embedded", "--tolerance", "0", "--json"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    failed = {line["item"]: line["sentence"] for line in lines[:-1] if line["status"] == "failed"}
    assert "allowed difference 0" in failed["sampled"]
    assert lines[-1]["failed"] == len(failed)
    assert {"limits", "refusals", "pause"} <= {line["item"] for line in lines[:-1] if line["status"] == "passed"}


def test_a_name_that_names_nothing_and_an_address_without_a_model_are_asked_wrongly(capsys):
    assert run_command(["engine", "check", "nothing"]) == 2
    assert run_command(["engine", "check", "http://127.0.0.1:1"]) == 2
    said = capsys.readouterr().err
    assert "scripted, embedded, vllm" in said
    assert "--model FOLDER" in said


def test_an_interpreter_that_is_not_there_is_said_in_a_sentence(capsys, tmp_path):
    assert run_command(["engine", "check", "vllm", "--python", str(tmp_path / "python")]) == 1
    assert "make setup-vllm" in capsys.readouterr().err
