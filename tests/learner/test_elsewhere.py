"""Learner and engine on a device that is not the CPU give the numbers of the CPU, and mix no tensors of both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_learner_and_engine_need_no_cpu():
    command = [sys.executable, "-W", "ignore", "-m", "tests.learner.elsewhere"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert "mixes tensors of far" in found["refusal"]
    assert found["learner"] <= 1e-5
    assert found["engine"] <= 1e-5
