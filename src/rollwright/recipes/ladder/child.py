"""A command of the program that ends with whoever started it, killed or not.

    python -m rollwright.recipes.ladder.child PARENT WORD …

PARENT is the process id of whoever starts it. Behind it stand the words of a command, or `fault NAME` and an order to
train under a fault of the ladder's self-test.
"""

import ctypes
import os
import runpy
import signal
import sys
from typing import NoReturn

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_FAULT = "fault"


def main() -> NoReturn:
    """Run what the arguments say."""
    parent, words = int(sys.argv[1]), sys.argv[2:]
    _end_with(parent)
    if words[0] == _FAULT:
        from rollwright.recipes.ladder.faulty import train_under

        name, recipe, run_dir, *settings = words[1:]
        train_under(name, recipe, run_dir, settings)
        sys.exit(0)
    sys.argv[1:] = words
    runpy.run_module("rollwright", run_name="__main__")  # The command line lies above: it is run, never imported.
    sys.exit(0)


def _end_with(parent: int) -> None:
    """Be killed when the parent is gone: a run that is killed resumes, one that goes on unseen holds its folder."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"process {parent}, which asked for this, is no more")


if __name__ == "__main__":
    main()
