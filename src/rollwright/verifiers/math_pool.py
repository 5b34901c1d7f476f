"""Processes that run math-verify and can be killed.

math-verify's own timeout cannot stop one power tower inside a fraction, and signals work in no thread. Here each
request runs in a process with a limit of CPU time that the kernel enforces, so the limit means the same on a busy
machine; a limit of wall clock on top ends a process that does nothing. Only text goes in and one word comes out.
"""

import json
import signal
import sys
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.killable import LineProcess, ProcessThreads

__all__ = ["MathLimits", "MathPool", "MathStatus"]

MathStatus = Literal[
    "equal", "different", "unparsable", "bad_gold", "good_gold", "out_of_memory", "failed", "cpu_limit", "wall_limit",
    "crashed", "killed", "not_started",
]  # fmt: skip
_WORKER = Path(__file__).with_name("math_worker.py")
_MAX_REPLY_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class MathLimits:
    """What one comparison may cost."""

    cpu_s: float = 3.0
    wall_s: float = 30.0
    start_s: float = 60.0
    """Of a process: it imports sympy."""
    memory_bytes: int = 2 * 2**30
    num_workers: int = 2
    """At most; one more is started only while all others are busy."""

    def __post_init__(self) -> None:
        """Refuse limits that no comparison could meet."""
        if min(self.cpu_s, self.wall_s, self.start_s) <= 0 or self.memory_bytes < 2**28 or self.num_workers < 1:
            raise VerifierSetupError(f"{self}: times are above 0, memory_bytes at least 2**28, num_workers at least 1")


class MathPool:
    """Starts its processes at the first request and ends them in `close`; a context manager as well."""

    def __init__(self, limits: MathLimits | None = None) -> None:
        self._limits = limits or MathLimits()
        self._threads = ProcessThreads(
            self._started,
            num_threads=self._limits.num_workers,
            name="math-verify",
            closed="the math-verify pool was closed",
        )

    @property
    def limits(self) -> MathLimits:
        """What one comparison may cost."""
        return self._limits

    def submit(self, gold: str, answer: str | None) -> "Future[MathStatus]":
        """Run `compare` in a thread of the pool."""
        return self._threads.submit(self.compare, gold, answer)

    def compare(self, gold: str, answer: str | None) -> MathStatus:
        """Compare in this thread's process; without an answer, only tell whether the gold one is mathematics.

        A process that dies for another reason than its CPU limit is tried once more: the machine may have ended it.
        """
        status: MathStatus = "crashed"
        for _ in range(2):
            status = self._attempt(gold, answer)
            if status not in ("crashed", "killed", "not_started"):
                break
        return status

    def close(self) -> None:
        """End all processes; requests that still run end as `killed` or `not_started`."""
        self._threads.close()

    def __enter__(self) -> "MathPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _attempt(self, gold: str, answer: str | None) -> MathStatus:
        process = self._threads.mine()
        if process is None:
            return "not_started"
        if process.beginning is None or process.beginning["status"] != "ready":
            self._threads.drop(process)
            return "not_started"
        reply = process.exchange((json.dumps({"gold": gold, "answer": answer}) + "\n").encode(), self._limits.wall_s)
        if reply is not None:
            return cast("MathStatus", reply["status"])
        status = process.ended_by()
        self._threads.drop(process)
        if status == -signal.SIGPROF:
            return "cpu_limit"
        if status == -signal.SIGKILL:  # Its own limits end it otherwise: no doing of what it compared.
            return "killed"
        return "wall_limit" if status is None else "crashed"

    def _started(self) -> LineProcess:
        limits = self._limits
        return LineProcess(
            [sys.executable, "-I", str(_WORKER), str(limits.cpu_s), str(limits.memory_bytes)],
            environment={"LC_ALL": "C.UTF-8"},
            first=b"",
            start_s=limits.start_s,
            max_bytes=_MAX_REPLY_BYTES,
        )
