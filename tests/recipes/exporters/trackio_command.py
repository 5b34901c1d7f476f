"""A stored run sent to trackio, in a process that has loopback alone: `python -m THIS killed|resumed|read RUN`.

`killed` sends the steps up to `SENT` and dies by SIGKILL before trackio wrote the last of them; `resumed` goes on from
step `RESUMED`, which it sent, doing the next step again; `read` prints what trackio's own reader gives.
"""

import importlib
import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollwright.evidence import StoredRun
from rollwright.evidence.gates import read_gates
from rollwright.recipes.exporters.client import ExportedRun, ExportRecord
from rollwright.recipes.exporters.naming import evaluation_values, gate_values, renamed, step_values
from rollwright.recipes.exporters.sending import Sender
from rollwright.recipes.exporters.trackio import TrackioClient

PROJECT, NAME = "trials", "run-1a2b3c4d"
CONFIGURATION = {"run.steps": "2", "run.name": '"run"'}


def recorded(path: Path) -> Sequence[ExportRecord]:
    """Evaluation, gates and metrics of each step, as a run offers them."""
    stored, found = StoredRun(path), list[ExportRecord]()
    rows, gates = list(stored.evaluations()), read_gates(path)
    for step in stored.steps:
        evaluated = evaluation_values([row for row in rows if row.step == step and "#" not in row.evaluation])
        judged = gate_values([gate for gate in gates if gate.step == step])
        for values, is_last in ((evaluated, False), (judged, False), (step_values(stored.metrics(step)), True)):
            if sent := renamed(values, "rollwright"):
                found.append(ExportRecord(step=step, values=sent, is_last_of_step=is_last))
    return found


def split(steps: Sequence[int]) -> tuple[int, int]:
    """Up to where the first process sent, and from where the second goes on."""
    return steps[-2], steps[-3]


def main(part: str, path: Path) -> None:
    """One of the three."""
    assert [name for _, name in socket.if_nameindex()] == ["lo"], "there is more than loopback here"
    records = recorded(path)
    sent, resumed = split(StoredRun(path).steps)
    if part == "read":
        sys.stdout.write(json.dumps(stored()))
    elif part == "killed":
        client = TrackioClient(project=PROJECT, run_name="")
        client.begin(run_of(path, None, []))
        for one in records:
            if one.step <= sent:
                client.log(one)
        os.kill(os.getpid(), signal.SIGKILL)
    else:
        sender = Sender(TrackioClient(project=PROJECT, run_name=""))
        sender.begin(run_of(path, resumed, [one for one in records if one.step <= resumed]))
        for one in records:
            if one.step > resumed:
                sender.offer(one)
        sender.close()
        assert sender.complaints() == ()
        sys.stdout.write("heard\n")


def run_of(path: Path, resumed_step: int | None, history: Sequence[ExportRecord]) -> ExportedRun:
    return ExportedRun(
        run_id=NAME,
        name="run",
        folder=path,
        configuration=CONFIGURATION,
        resumed_step=resumed_step,
        history=history,
    )


def stored() -> dict[str, Any]:
    """Rows, configuration and what trackio measured itself, by trackio's own reader."""
    reader: Any = importlib.import_module("trackio.sqlite_storage").SQLiteStorage
    (run,) = importlib.import_module("trackio").Api().runs(PROJECT)
    rows = reader.get_logs(PROJECT, run.name, run_id=run.id)
    return {
        "name": run.name,
        "rows": [{name: value for name, value in row.items() if name != "timestamp"} for row in rows],
        "config": run.config,
        "system": reader.get_system_logs(PROJECT, run.name, run_id=run.id),
    }


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
