"""A really trained run writes what the metrics' sources ask for, under the names and units of the list."""

import json
import shutil
from pathlib import Path
from typing import cast

from rollwright.evidence import query
from rollwright.recipes.runs import resume_run
from rollwright.record.metrics import metric_named
from tests.end_to_end.conftest import Finished
from tests.end_to_end.small import ROOT, Listener

ASKED = json.loads((ROOT / "tests/data/metrics/asked.json").read_text(encoding="utf-8"))
MET = {"advantage", "action", "outcome", "difficulty"}
"""Parts that a run of one source, one length and no lag falls into."""
_METRICS = "SELECT name, unit, map_keys(labels) FROM metrics"
_EVALUATIONS = "SELECT metric, '', map_keys(labels) FROM evaluations"


def written(run: Path) -> list[tuple[str, str, list[str]]]:
    return cast("list[tuple[str, str, list[str]]]", list(query(run, f"{_METRICS} UNION ALL {_EVALUATIONS}").rows))


def test_a_small_run_writes_every_metric_that_is_asked_for_and_can_be_made_in_it(finished: Finished) -> None:
    names = {name for name, _, _ in written(finished.path)}
    lacking = [one for one in ASKED if "shown_by" not in one and own(one["metric"]) not in names]
    assert lacking == []


def test_whatever_it_writes_stands_in_the_list_with_its_unit_and_labels(finished: Finished) -> None:
    for name, unit, labels in written(finished.path):
        entry = metric_named(name)
        assert entry is not None and entry.name == name, name
        assert entry.table == "evaluations" or entry.unit == unit, name
        assert set(labels) <= {"model", *entry.labels, *entry.strata}, (name, labels)


def test_parts_that_are_asked_for_apart_are_written_apart(finished: Finished) -> None:
    found: dict[str, set[str]] = {}
    for name, _, labels in written(finished.path):
        found.setdefault(name, set()).update(labels)
    for one in ASKED:
        if "shown_by" not in one and own(one["metric"]) != "policy/kl_ref_sqrt":
            assert set(one.get("by", ())) & MET <= found[own(one["metric"])], one


def test_the_step_that_a_resumed_run_begins_with_says_what_restoring_took(finished: Finished, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished.path, run)
    newest = max((run / "checkpoints").glob("step-*"))
    shutil.rmtree(newest)
    resume_run(run, Listener())
    rows = query(run, "SELECT step, value, unit FROM metrics WHERE name = 'sys/restore_s'").rows
    assert len(rows) == 1
    step, value, unit = rows[0]
    assert step == int(newest.name.removeprefix("step-")) and cast("float", value) > 0 and unit == "s"


def own(name: str) -> str:
    entry = metric_named(name)
    assert entry is not None, name
    return entry.name
