"""Runs the checks in a process of their own and watches it: what hangs, blocks or kills it becomes an outcome.

checks ──events──► here ──outcomes──► whoever asked
       ◄──kill── when no event comes within the time that the last one allowed
"""

import json
import os
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import cast

from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.checking.elsewhere import command, order_text
from rollwright.recipes.worlds.checking.footprint import descendants, end_processes
from rollwright.recipes.worlds.checking.outcomes import CheckOrder, CheckOutcome, Status
from rollwright.recipes.worlds.checking.session import CHECKS
from rollwright.recipes.worlds.checking.stage import SLOW_S

__all__ = ["check_world"]

_GRACE_S = 5.0
"""How much longer than what a place may take is waited before it is said to block."""


def check_world(order: CheckOrder) -> Iterator[CheckOutcome]:
    """Run every check of a world; each outcome comes when it is known.

    Args:
        order: which world, how many tasks, how long an answer may take.

    Raises:
        RecipeError: for a name that names nothing.
    """
    with tempfile.TemporaryDirectory(prefix="rollwright-check-") as folder:
        scratch = Path(folder) / "scratch"
        scratch.mkdir()
        read_end, write_end = os.pipe()
        try:
            process = subprocess.Popen(
                command("check", str(write_end), scratch, settings={"PYTHONHASHSEED": "0"}),
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(write_end,),
                start_new_session=True,
            )
        finally:
            os.close(write_end)
        try:
            assert process.stdin is not None, "it was asked for"
            with suppress(BrokenPipeError):
                process.stdin.write(order_text(order, scratch).encode())
                process.stdin.close()
            yield from _Watch(process, read_end).outcomes()
        finally:
            _end(process)
            os.close(read_end)


class _Watch:
    """Reads events and knows where the world is."""

    def __init__(self, process: subprocess.Popen[bytes], read_end: int) -> None:
        self._process = process
        self._read_end = read_end
        self._buffer = b""
        self._check = next(iter(CHECKS))
        self._where = "importing the world"
        self._allowed_s = SLOW_S
        self._said: list[str] = []

    def outcomes(self) -> Iterator[CheckOutcome]:
        """Until all is said, or nothing more comes."""
        while (event := self._next()) is not None:
            if "refused" in event:
                raise RecipeError(str(event["refused"]))
            if "done" in event:
                return
            if "check" in event:
                self._check = str(event["check"])
            elif "at" in event:
                self._where, self._allowed_s = str(event["at"]), cast("float", event["allowed_s"])
            else:
                name, status, sentence = cast("tuple[str, Status, str]", event["outcome"])
                self._said.append(name)
                yield CheckOutcome(name=name, status=status, sentence=sentence)
        yield from self._broken_off()

    def _next(self) -> Mapping[str, object] | None:
        """The next event; None where the process has ended, or is silent for too long."""
        deadline = time.monotonic() + self._allowed_s + _GRACE_S
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._read_end], [], [], max(0.0, deadline - time.monotonic()))
            found = os.read(self._read_end, 2**16) if ready else b""
            if not found:
                return None
            self._buffer += found
        line, _, self._buffer = self._buffer.partition(b"\n")
        return cast("Mapping[str, object]", json.loads(line))

    def _broken_off(self) -> Iterator[CheckOutcome]:
        """The check in which it ended, and those that can no longer run."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(0.5)
        code = self._process.poll()
        if code is None:
            sentence = (
                f"{self._where} did not come back within {self._allowed_s:g} s and blocked everything else; an "
                "environment never blocks the event loop: it awaits, or works in a thread or a process"
            )
        else:
            sentence = (
                f"{self._where} ended the whole process (exit code {code}); an environment raises "
                "EnvironmentBrokenError and never ends the process that it runs in"
            )
        yield CheckOutcome(name=self._check, status="failed", sentence=sentence)
        for name in CHECKS:
            if name not in (*self._said, self._check):
                why = f"not checked, because the check {self._check} could not be ended otherwise than by force"
                yield CheckOutcome(name=name, status="skipped", sentence=why)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with all that it has started; it is the parent of what its children leave behind."""
    left = descendants(process.pid)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    end_processes(left)
    process.wait()
