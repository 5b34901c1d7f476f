"""Every number that the sources ask for is in the list, with a unit and a formula, or says why it is not made."""

import json
from pathlib import Path

import pytest

from rollwright.record.metrics import metric_named

ROOT = Path(__file__).parents[2]
ASKED = json.loads((ROOT / "tests/data/metrics/asked.json").read_text(encoding="utf-8"))
"""What evidence.md section 5 and the table of methods.md M135 ask for, line by line, by the name it has here; `by` are
the parts that it is asked for apart; `shown_by` is what shows it where no small run does."""
UNMADE = {"value/loss", "moe/router_load", "env/kv_replay_fail"}
"""No critic and no router of experts is trained here, and no engine replays a cache and tells."""


@pytest.mark.parametrize("asked", ASKED, ids=lambda one: f"{one['source']}: {one['asked']}: {one['metric']}")
def test_what_is_asked_for_has_a_name_a_unit_and_a_formula(asked):
    entry = metric_named(asked["metric"])
    assert entry is not None
    assert entry.formula and entry.unit
    assert bool(entry.by) != (entry.name in UNMADE), "made by a function, or one of the few with a reason"
    assert entry.by or entry.note, "what is not made says why"
    assert set(asked.get("by", ())) <= {*entry.labels, *entry.strata}


def test_what_shows_a_metric_that_small_runs_do_not_write_is_there():
    named = {one.get("shown_by") for one in ASKED} - {None, "nothing"}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    assert {one["metric"] for one in ASKED if one.get("shown_by") == "nothing"} == UNMADE
