"""Commands in processes of their own that start at once: forked from one that has the imports behind it.

What runs is the command line's own entry, so that killing and interrupting hit a real process. Nothing but imports
happened in the process that is forked.
"""

import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.end_to_end.small import ROOT, Ended

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.end_to_end.preload"])


class Child:
    """A command that runs."""

    def __init__(self, process: BaseProcess, out: Path, err: Path) -> None:
        self._process = process
        self._out = out
        self._err = err

    @property
    def is_running(self) -> bool:
        """False once it has ended."""
        return self._process.is_alive()

    def has_said(self, text: str) -> bool:
        """True once it has printed `text`."""
        return self._out.exists() and text in self._out.read_text(encoding="utf-8")

    def wait_for(self, is_there: Callable[[], bool], *, timeout_s: float = 60.0) -> bool:
        """Wait until something holds; False where the command ended before."""
        end = time.monotonic() + timeout_s
        while not is_there():
            if not self.is_running:
                return is_there()
            assert time.monotonic() < end, f"it never came; printed: {self._out.read_text()} {self._err.read_text()}"
            time.sleep(0.002)
        return True

    def kill(self) -> None:
        """SIGKILL; nothing of the command runs afterwards."""
        self._process.kill()
        self._process.join(30)

    def interrupt(self) -> None:
        """What Ctrl-C sends."""
        if self._process.pid is not None and self.is_running:
            os.kill(self._process.pid, signal.SIGINT)

    def ended(self, *, timeout_s: float = 120.0) -> Ended:
        """Wait for its end."""
        self._process.join(timeout_s)
        assert not self.is_running, f"it did not end; printed: {self._out.read_text()} {self._err.read_text()}"
        code = self._process.exitcode
        assert code is not None
        return Ended(code=code, out=self._out.read_text(encoding="utf-8"), err=self._err.read_text(encoding="utf-8"))


def start_command(words: Sequence[str | Path], folder: Path, limit: Callable[[], None] | None = None) -> Child:
    """Run `rollwright WORDS` in a process of its own.

    Args:
        words: of the command line.
        folder: for what it prints; it exists.
        limit: a function of a module, called in the process first.
    """
    number = len(list(folder.glob("out-*")))
    out, err = folder / f"out-{number}", folder / f"err-{number}"
    out.touch()
    err.touch()  # A child that is killed at once has made neither.
    arguments = (tuple(map(str, words)), str(out), str(err), limit)
    process = _CONTEXT.Process(target=_command, args=arguments, name=f"rollwright {words[0]}")
    os.chdir(ROOT)
    process.start()
    return Child(process, out, err)


def _command(words: Sequence[str], out: str, err: str, limit: Callable[[], None] | None) -> None:
    from rollwright.cli.main import run_command

    for path, stream in ((out, 1), (err, 2)):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, stream)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8")
    sys.stderr = os.fdopen(2, "w", encoding="utf-8")
    if limit is not None:
        limit()
    sys.exit(run_command(words))
