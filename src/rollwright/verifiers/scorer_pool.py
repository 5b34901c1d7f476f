"""Processes that run someone else's scorer and can be killed.

A scorer of another package may hang, grow, or take the text of an answer for a program. Here each request runs in a
process with limits of CPU time and memory that the kernel enforces, with a limit of wall clock on top.

The process is no wall: it runs as this user. What the policy wrote may be read there, and never run.
"""

import json
import signal
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from rollwright.tasks import Json
from rollwright.verifiers.errors import VerifierSetupError
from rollwright.verifiers.killable import LineProcess, ProcessThreads

__all__ = ["ScorerLimits", "ScorerPool", "ScorerStatus", "ScorerReply"]

ScorerStatus = Literal[
    "given", "failed", "out_of_memory", "cpu_limit", "wall_limit", "crashed", "killed", "not_started"
]
_WORKER = Path(__file__).with_name("scorer_worker.py")
_MAX_REPLY_BYTES = 2**24


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerLimits:
    """What one call may cost."""

    cpu_s: float = 5.0
    wall_s: float = 30.0
    start_s: float = 120.0
    """Of a process: it imports the package."""
    memory_bytes: int = 4 * 2**30
    num_workers: int = 1
    """At most; one more starts while all others are busy."""
    idle_s: float = 600.0
    """Without a call, after which a process ends; the next call starts one."""

    def __post_init__(self) -> None:
        """Refuse limits that no call could meet."""
        if (
            min(self.cpu_s, self.wall_s, self.start_s, self.idle_s) <= 0
            or self.memory_bytes < 2**28
            or self.num_workers < 1
        ):
            raise VerifierSetupError(f"{self}: times are above 0, memory_bytes at least 2**28, num_workers at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerReply:
    """How a call ended."""

    status: ScorerStatus
    value: Json = None
    """What the scorer gave; where it failed or did not start, what it said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The first line that a worker reads."""

    target: str
    settings: Mapping[str, Json]
    limits: ScorerLimits
    paths: tuple[str, ...] = field(default_factory=lambda: tuple(sys.path))

    def line(self) -> bytes:
        first = {
            "target": self.target,
            "settings": self.settings,
            "memory_bytes": self.limits.memory_bytes,
            "paths": self.paths,
        }
        return (json.dumps(first) + "\n").encode()


class ScorerPool:
    """Starts its processes at the first request and ends them in `close`; a context manager as well."""

    def __init__(self, target: str, settings: Mapping[str, Json], limits: ScorerLimits | None = None) -> None:
        """Store what the processes run.

        Args:
            target: `package.module:function` of the settings, called once a process; it returns the function that
                answers: JSON in, JSON out.
            settings: for it.
            limits: of a call.
        """
        self._limits = limits or ScorerLimits()
        self._start = _Start(target=target, settings=settings, limits=self._limits)
        self._threads = ProcessThreads(
            self._started,
            num_threads=self._limits.num_workers,
            name="scorer",
            closed="the pool of scorers was closed",
            idle_s=self._limits.idle_s,
        )

    @property
    def limits(self) -> ScorerLimits:
        """What one call may cost."""
        return self._limits

    @property
    def num_processes(self) -> int:
        """That run now: none before the first call, and none where nobody has called for a while."""
        return self._threads.num_processes

    def submit(self, request: Json, *, cpu_s: float | None = None) -> "Future[ScorerReply]":
        """Run `call` in a thread of the pool, where its process is."""
        return self._threads.submit(self.call, request, cpu_s=cpu_s)

    def call(self, request: Json, *, cpu_s: float | None = None) -> ScorerReply:
        """Call in this thread's process. One that dies for another reason than its limits is tried once more.

        Args:
            request: for the function that answers.
            cpu_s: of this call, where it may take another time than a score; the wall clock's limit follows it.
        """
        reply = ScorerReply(status="crashed")
        for _ in range(2):
            reply = self._attempt(request, cpu_s)
            if reply.status not in ("crashed", "killed"):
                break
        return reply

    def close(self) -> None:
        """End all processes; requests that still run end as `killed` or `not_started`."""
        self._threads.close()

    def __enter__(self) -> "ScorerPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _attempt(self, request: Json, cpu_s: float | None) -> ScorerReply:
        process = self._threads.mine()
        if process is None:
            return ScorerReply(status="not_started", value="the pool was closed")
        beginning = process.beginning
        if beginning is None or beginning["status"] != "ready":
            self._threads.drop(process)
            said = "no word from the process" if beginning is None else str(beginning["value"])
            return ScorerReply(status="not_started", value=said)
        limits = self._limits
        wall_s = limits.wall_s if cpu_s is None else limits.wall_s * max(1.0, cpu_s / limits.cpu_s)
        asked = {"cpu_s": cpu_s or limits.cpu_s, "request": request}
        given = process.exchange((json.dumps(asked) + "\n").encode(), wall_s)
        if given is not None:
            return ScorerReply(status=cast("ScorerStatus", given["status"]), value=given["value"])
        status = process.ended_by()
        self._threads.drop(process)
        if status == -signal.SIGPROF:
            return ScorerReply(status="cpu_limit")
        if status == -signal.SIGKILL:  # Its own limits end it otherwise: no doing of what it scored.
            return ScorerReply(status="killed")
        return ScorerReply(status="wall_limit" if status is None else "crashed")

    def _started(self) -> LineProcess:
        return LineProcess(
            [sys.executable, "-P", str(_WORKER)],
            environment={"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},  # Sets in one order, so that draws repeat.
            first=self._start.line(),
            start_s=self._limits.start_s,
            max_bytes=_MAX_REPLY_BYTES,
        )
