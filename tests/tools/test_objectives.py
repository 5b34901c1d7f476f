"""The page of objectives says what the proofs hold, the newest line of each command."""

import json

from tools.objectives import latest, render_document


def line(command: str, success: float) -> str:
    point = {"success": success, "low": success - 0.01, "high": success + 0.01, "tasks": 200}
    figures = {"before": point, "after": point, "episodes": 5120, "max_mismatch": 2e-05, "seconds": 130.4}
    return json.dumps({"commit": "c", "command": command, "seeds": [0], "figures": figures})


def test_the_newest_line_of_a_command_counts():
    lines = [line("rollwright train a", 0.5), line("rollwright train b", 0.6), line("rollwright train a", 0.9)]
    assert {command: figures["after"]["success"] for command, figures in latest(lines).items()} == {
        "rollwright train a": 0.9,
        "rollwright train b": 0.6,
    }
    page = render_document(lines)
    assert "| `rollwright train a` | 0.900 [0.890, 0.910] | 0.900 [0.890, 0.910] | 5,120 | 2.0e-05 | 130 |" in page
    assert page.count("| `rollwright train") == 2
