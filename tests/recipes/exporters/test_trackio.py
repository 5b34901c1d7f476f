"""trackio gets what a run measured, each number once, on this machine alone; runs where trackio is installed."""

import importlib.util
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rollwright.recipes.exporters.client import ExportRecord
from tests.recipes.exporters.loopback import ROOT, run_with_loopback_alone
from tests.recipes.exporters.trackio_command import CONFIGURATION, NAME, recorded

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("trackio") is None,
        reason="trackio is not installed; pip install 'rollwright[trackio]' in an environment of its own",
    ),
]
RUN = ROOT / "tests/data/runs/after"


def part(name: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    words = ("-m", "tests.recipes.exporters.trackio_command", name, str(RUN))
    return run_with_loopback_alone(*words, environment={"TRACKIO_DIR": str(folder), "HF_HOME": str(folder / "hub")})


def numbers(rows: list[dict[str, Any]]) -> Iterator[tuple[int, str, float]]:
    for row in rows:
        yield from ((row["step"], name, value) for name, value in row.items() if name != "step")


def sent(records: list[ExportRecord]) -> list[tuple[int, str, float]]:
    return sorted((one.step, name, value) for one in records for name, value in one.values.items())


def test_a_run_that_was_killed_and_resumed_stands_there_once_and_whole(tmp_path: Path):
    killed = part("killed", tmp_path)
    assert killed.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), killed.stderr
    resumed = part("resumed", tmp_path)
    assert (resumed.returncode, resumed.stdout) == (0, "heard\n"), resumed.stderr
    read = part("read", tmp_path)
    assert read.returncode == 0, read.stderr
    found = json.loads(read.stdout)
    assert sorted(numbers(found["rows"])) == sent(list(recorded(RUN)))
    assert found["name"] == NAME
    assert {key: value for key, value in found["config"].items() if not key.startswith("_")} == CONFIGURATION
    assert found["system"] == [], "trackio measured the machine, which is none of its business"
