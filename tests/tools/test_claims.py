"""The default recipe's claim is held to its numbers."""

import json

import pytest

from tools.claims import broken_claims, main

BEFORE = {"success": 0.41, "low": 0.35, "high": 0.47, "tasks": 256}
AFTER = {"success": 0.95, "low": 0.91, "high": 0.98, "tasks": 256}


def test_a_run_that_learned_carries_the_claim():
    assert broken_claims({"before": BEFORE, "after": AFTER}) == []


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ({"success": 0.60}, {}, "below 0.6"),
        ({}, {"success": 0.89}, "at least 0.9"),
        ({"high": 0.91}, {}, "intervals touch"),
        ({}, {"tasks": 199}, "held-out tasks"),
        ({"success": float("nan")}, {}, "below 0.6"),
    ],
)
def test_each_broken_claim_is_named(before, after, why):
    (sentence,) = broken_claims({"before": BEFORE | before, "after": AFTER | after})
    assert why in sentence


@pytest.mark.parametrize("text", ["", "Traceback\n", '{"run": "x"}\n', "3\n"])
def test_a_run_without_a_summary_carries_nothing(tmp_path, capsys, text):
    (tmp_path / "out").write_text(text, encoding="utf-8")
    assert main([str(tmp_path / "out")]) == 1
    assert "no summary" in capsys.readouterr().err


def test_the_summary_is_the_last_line(tmp_path, capsys):
    lines = [
        json.dumps({"step": 1}),
        json.dumps({"run": "r", "steps": 60, "seconds": 99.0, "before": BEFORE, "after": AFTER}),
    ]
    (tmp_path / "out").write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert main([str(tmp_path / "out")]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 60
