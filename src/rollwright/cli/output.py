"""Standard output and error as the process got them: in any encoding, full, closed, or with nobody who reads on."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from rollwright.cli.failures import FAILED

__all__ = ["finish_output", "open_output", "say_aside"]


def open_output() -> None:
    """Show a character that the encoding lacks as another, and write to nowhere where a stream is closed."""
    for name in ("stdout", "stderr"):
        stream: object = getattr(sys, name)
        if stream is None:  # so Python says that the process was started with it closed
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def finish_output(code: int) -> int:
    """Write out what is still held back.

    Args:
        code: that the command ended with.

    Returns:
        The same, or that of a failure where the output could not be written; a reader who left is told nothing.
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        _discard_the_rest()
        if code == 0 and not isinstance(error, BrokenPipeError):
            say_aside(f"the output cannot be written: {error.strerror}.")
        return code or FAILED
    return code


def say_aside(sentence: str) -> None:
    """A sentence on standard error, where there is one."""
    with suppress(OSError):
        line = Text.assemble(("rollwright: ", "red"), sentence)
        Console(stderr=True).print(line, highlight=False, soft_wrap=True)


def _discard_the_rest() -> None:
    """The interpreter flushes once more as it ends, and would complain in a traceback."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
