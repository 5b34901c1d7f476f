"""Processes that run someone else's scorer and can be killed.

A scorer of another package may hang, grow, or take the text of an answer for a program. Here each request runs in a
process with limits of CPU time and memory that the kernel enforces, with a limit of wall clock on top.

    submit (any thread, any loop) ──► executor thread ──line──► worker process ──line──► ScorerReply
                                            └── deadline passed or worker dead: kill, a new one next time

The process is no wall: it runs as this user. What the policy wrote may be read there, and never run.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from rollwright.tasks import Json
from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["ScorerLimits", "ScorerPool", "ScorerStatus", "ScorerReply"]

ScorerStatus = Literal["given", "failed", "out_of_memory", "cpu_limit", "wall_limit", "crashed", "not_started"]
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

    def __post_init__(self) -> None:
        """Refuse limits that no call could meet."""
        if min(self.cpu_s, self.wall_s, self.start_s) <= 0 or self.memory_bytes < 2**28 or self.num_workers < 1:
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


class _Worker:
    """One process, used by one thread."""

    def __init__(self, start: _Start) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(_WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},  # Sets in one order, so that draws repeat.
            start_new_session=True,
        )
        self.beginning = self._exchange(start.line(), start.limits.start_s)

    def ask(self, request: Json, *, cpu_s: float, wall_s: float) -> Mapping[str, Json] | None:
        """The worker's reply; None where it gave none in time."""
        return self._exchange((json.dumps({"cpu_s": cpu_s, "request": request}) + "\n").encode(), wall_s)

    def ended_by(self, *, grace_s: float = 1.0) -> int | None:
        """The exit status, None where it still runs."""
        try:
            return self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            return None

    def kill(self) -> None:
        """End and reap it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue

    def _exchange(self, line: bytes, wall_s: float) -> Mapping[str, Json] | None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except (OSError, ValueError):
            return None
        received = bytearray()
        deadline = time.monotonic() + wall_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n") and len(received) < _MAX_REPLY_BYTES:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), 2**16)
                if not part:
                    return None
                received += part
        return cast("Mapping[str, Json]", json.loads(received))


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
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._workers: set[_Worker] = set()
        self._is_closed = False

    @property
    def limits(self) -> ScorerLimits:
        """What one call may cost."""
        return self._limits

    def submit(self, request: Json, *, cpu_s: float | None = None) -> "Future[ScorerReply]":
        """Run `call` in a thread of the pool, where its process is."""
        with self._lock:
            if self._is_closed:
                raise VerifierSetupError("the pool of scorers was closed")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._limits.num_workers, thread_name_prefix="scorer")
            return self._executor.submit(self.call, request, cpu_s=cpu_s)

    def call(self, request: Json, *, cpu_s: float | None = None) -> ScorerReply:
        """Call in this thread's process. One that dies for another reason than its limits is tried once more.

        Args:
            request: for the function that answers.
            cpu_s: of this call, where it may take another time than a score; the wall clock's limit follows it.
        """
        reply = ScorerReply(status="crashed")
        for _ in range(2):
            reply = self._attempt(request, cpu_s)
            if reply.status != "crashed":
                break
        return reply

    def close(self) -> None:
        """End all processes; requests that still run end as `crashed`."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
            workers = tuple(self._workers)
        for worker in workers:
            worker.kill()
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
        for worker in tuple(self._workers):
            self._drop(worker)

    def __enter__(self) -> "ScorerPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _attempt(self, request: Json, cpu_s: float | None) -> ScorerReply:
        worker = self._worker()
        if isinstance(worker, ScorerReply):
            return worker
        limits = self._limits
        wall_s = limits.wall_s if cpu_s is None else limits.wall_s * max(1.0, cpu_s / limits.cpu_s)
        given = worker.ask(request, cpu_s=cpu_s or limits.cpu_s, wall_s=wall_s)
        if given is not None:
            return ScorerReply(status=cast("ScorerStatus", given["status"]), value=given["value"])
        status = worker.ended_by()
        self._drop(worker)
        if status == -signal.SIGPROF:
            return ScorerReply(status="cpu_limit")
        return ScorerReply(status="wall_limit" if status is None else "crashed")

    def _worker(self) -> "_Worker | ScorerReply":
        worker: _Worker | None = self._own.__dict__.get("worker")
        if worker is not None:
            return worker
        if self._is_closed:
            return ScorerReply(status="not_started", value="the pool was closed")
        worker = _Worker(self._start)
        with self._lock:
            self._workers.add(worker)
        self._own.__dict__["worker"] = worker
        beginning = worker.beginning
        if beginning is None or beginning["status"] != "ready":
            self._drop(worker)
            said = "no word from the process" if beginning is None else str(beginning["value"])
            return ScorerReply(status="not_started", value=said)
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        with self._lock:
            self._workers.discard(worker)
        self._own.__dict__.pop("worker", None)
