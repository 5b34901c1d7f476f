"""`check` lets a row that says ready name an episode that nobody has, where a restart explains it and nowhere else."""

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from rollwright.evidence import Event, RunFolder, check
from rollwright.record import LedgerRow
from tests.evidence.runs import START, ledger_row, manifest, scored_trajectory, trained_step

OPEN, AGAIN = 7, 8
"""The group that was ready as the run ended, and the one in which its task is dispatched again."""


def rows_of_open(*states: str, step: int, **changed: object) -> list[LedgerRow]:
    """Rows of the open group, whose episodes no commit holds."""
    members = [scored_trajectory(group_id=OPEN, slot=slot, version=0) for slot in range(2)]
    rows = [ledger_row(member, state, step=step) for state in states for member in members]
    return [dataclasses.replace(row, **changed) for row in rows]  # pyright: ignore[reportArgumentType] - of the caller


def requeued(step: int, rule: str) -> list[LedgerRow]:
    return rows_of_open("requeued", step=step, rule=rule, successor=AGAIN, trajectory_id=None)


def written(path: Path, *ledgers: list[LedgerRow], resumed: int | None) -> Path:
    """A run of a step for each list of rows, which stand beside the step's own; `resumed`: after which it went on."""
    with RunFolder.create(path, manifest(), "") as folder:
        for step, more in enumerate(ledgers, 1):
            rows = trained_step(step)
            rows = dataclasses.replace(rows, ledger=[*rows.ledger, *more])
            folder.commit(rows, at=START + timedelta(seconds=step))
            if step == resumed:
                folder.record_event(Event(at=START, kind="resumed", text="went on from a checkpoint", step=step))
    return path


def unexplained(run: Path) -> list[str]:
    findings = check(run).findings
    assert all(f.expected == "a row of trajectories" for f in findings), findings
    return sorted(f.text for f in findings)


NAMED = [f"it names t{OPEN:06d}-{slot:02d}-0, which is not there" for slot in range(2)]


def test_what_was_ready_at_a_restart_needs_no_episode(tmp_path):
    run = written(tmp_path / "run", rows_of_open("in_flight", "ready", step=1), requeued(2, "restart"), resumed=1)
    assert check(run).findings == ()


@pytest.mark.parametrize("rule", ["straggler", "lag", "over"])
def test_a_slot_that_was_requeued_for_another_cause_needs_one(tmp_path, rule):
    run = written(tmp_path / "run", rows_of_open("in_flight", "ready", step=1), requeued(2, rule), resumed=1)
    assert unexplained(run) == NAMED


def test_a_restart_that_never_was_excuses_nothing(tmp_path):
    run = written(tmp_path / "run", rows_of_open("in_flight", "ready", step=1), requeued(2, "restart"), resumed=None)
    assert unexplained(run) == NAMED


def test_a_restart_between_other_steps_excuses_nothing(tmp_path):
    open_rows = rows_of_open("in_flight", "ready", step=2)
    run = written(tmp_path / "run", [], open_rows, requeued(3, "restart"), resumed=1)
    assert unexplained(run) == NAMED


def test_what_was_ready_and_requeued_in_one_step_needs_its_episode(tmp_path):
    at_once = [*rows_of_open("in_flight", "ready", step=2), *requeued(2, "restart")]
    run = written(tmp_path / "run", [], at_once, resumed=1)
    assert unexplained(run) == NAMED


def test_what_is_ready_at_the_end_needs_its_episode(tmp_path):
    run = written(tmp_path / "run", rows_of_open("in_flight", "ready", step=1), [], resumed=1)
    assert unexplained(run) == NAMED
