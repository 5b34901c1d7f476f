"""Output that is full, cut off or in ASCII ends in a sentence or in silence, never in a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evidence.runs import written_run

MANY = "SELECT i, 'q — × é' AS text FROM range(20000) AS t(i)"
WIDE = "SELECT 'q — × é' AS text"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return written_run(tmp_path_factory.mktemp("output") / "run")


def command(*arguments, **options):
    words = [sys.executable, "-m", "rollwright", *map(str, arguments)]
    return subprocess.run(words, stderr=subprocess.PIPE, text=True, timeout=60, check=False, **options)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [("query", MANY, "--json"), ("query", MANY), ("--version",), ("--help",)], ids=str)
def test_a_full_device_is_said_in_a_sentence(run, words):
    arguments = [words[0], run, *words[1:]] if words[0] == "query" else words
    with open("/dev/full", "w") as full:
        ended = command(*arguments, stdout=full)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "No space left on device" in ended.stderr


@pytest.mark.parametrize("flags", [("--json",), ()], ids=str)
def test_a_reader_who_leaves_is_told_nothing(run, flags):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = command("query", run, MANY, *flags, stdout=writer)
    finally:
        os.close(writer)
    assert ended.stderr == ""
    assert ended.returncode == 1


def test_a_terminal_of_ascii_shows_what_it_can(run):
    environment = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    lines = command("query", run, WIDE, "--json", stdout=subprocess.PIPE, env=environment)
    assert json.loads(lines.stdout) == {"text": "q — × é"}
    table = command("query", run, WIDE, stdout=subprocess.PIPE, env=environment)
    assert (lines.returncode, table.returncode, table.stderr) == (0, 0, "")
    assert "q ? ? ?" in table.stdout


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_output_is_nowhere_to_write_and_no_failure(closed):
    words = f"{sys.executable} -m rollwright recipe list --json {closed}"
    ended = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
