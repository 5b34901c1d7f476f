"""A starter leaves nothing behind: what loses its parent falls to it, and ends."""

import os
import select
import sys
from pathlib import Path

from rollwright.sandboxes.starting import StarterProcess

GONE_S = 20.0
CUT_SHORT = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL) if os.fork() else signal.pause()"
"""Killed between the start of its child and the order that the child dies with it, as bubblewrap may be."""


def test_what_a_sandbox_leaves_that_is_killed_while_it_starts_ends_with_it() -> None:
    interpreter = str(Path(os.path.realpath(sys.executable)))
    settings = {
        "arguments": [interpreter, "-I", "-S", "-c", CUT_SHORT],
        "after": [],
        "executable": interpreter,
        "libraries": "",
        "variables": [],
        "binds": [],
        "filter": "",
        "first_user": 0,
        "isolation": "namespaces",
    }
    starter = StarterProcess(settings)
    try:
        start = starter.start(0, "")
        with start.channel:
            assert select.select([start.gone], [], [], GONE_S)[0], "something still holds the sandbox's ends"
            assert os.read(start.gone, 1000) == b""
            os.close(start.gone)
    finally:
        starter.close()
