"""Processes that run math-verify and can be killed.

math-verify's own timeout cannot stop one power tower inside a fraction, and signals work in no thread. Here each
request runs in a process with a limit of CPU time that the kernel enforces, so the limit means the same on a busy
machine; a limit of wall clock on top ends a process that does nothing. Only text goes in and one word comes out.

    verify (any thread, any loop) ──► executor thread ──line──► worker process ──word──► status
                                            └── deadline passed or worker dead: kill, a new one next time
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["MathLimits", "MathPool", "MathStatus"]

MathStatus = Literal[
    "equal", "different", "unparsable", "bad_gold", "good_gold", "out_of_memory", "failed", "cpu_limit", "wall_limit",
    "crashed", "not_started",
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


class _Worker:
    """One process, used by one thread."""

    def __init__(self, limits: MathLimits) -> None:
        command = [sys.executable, "-I", str(_WORKER), str(limits.cpu_s), str(limits.memory_bytes)]
        self._process = subprocess.Popen(  # noqa: S603 - our own file, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LC_ALL": "C.UTF-8"},
            start_new_session=True,
        )
        self.is_ready = self._read(limits.start_s) == "ready"

    def ask(self, gold: str, answer: str | None, wall_s: float) -> str | None:
        """The worker's word; None where it gave none in time."""
        line = json.dumps({"gold": gold, "answer": answer}) + "\n"
        try:
            assert self._process.stdin is not None
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError:
            return None
        return self._read(wall_s)

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

    def _read(self, wall_s: float) -> str | None:
        assert self._process.stdout is not None
        received = b""
        deadline = time.monotonic() + wall_s
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n") and len(received) < _MAX_REPLY_BYTES:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), _MAX_REPLY_BYTES)
                if not part:
                    return None
                received += part
        return str(json.loads(received)["status"])


class MathPool:
    """Starts its processes at the first request and ends them in `close`; a context manager as well."""

    def __init__(self, limits: MathLimits | None = None) -> None:
        self._limits = limits or MathLimits()
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._workers: set[_Worker] = set()
        self._is_closed = False

    @property
    def limits(self) -> MathLimits:
        """What one comparison may cost."""
        return self._limits

    def submit(self, gold: str, answer: str | None) -> "Future[MathStatus]":
        """Run `compare` in a thread of the pool."""
        with self._lock:
            if self._is_closed:
                raise VerifierSetupError("the math-verify pool was closed")
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._limits.num_workers, thread_name_prefix="math-verify")
            return self._executor.submit(self.compare, gold, answer)

    def compare(self, gold: str, answer: str | None) -> MathStatus:
        """Compare in this thread's process; without an answer, only tell whether the gold one is mathematics.

        A process that dies for another reason than its CPU limit is tried once more: the machine may have ended it.
        """
        status: MathStatus = "crashed"
        for _ in range(2):
            status = self._attempt(gold, answer)
            if status not in ("crashed", "not_started"):
                break
        return status

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

    def __enter__(self) -> "MathPool":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _attempt(self, gold: str, answer: str | None) -> MathStatus:
        worker = self._worker()
        if worker is None:
            return "not_started"
        word = worker.ask(gold, answer, self._limits.wall_s)
        if word is not None:
            return cast("MathStatus", word)
        status = worker.ended_by()
        self._drop(worker)
        if status == -signal.SIGPROF:
            return "cpu_limit"
        return "wall_limit" if status is None else "crashed"

    def _worker(self) -> _Worker | None:
        worker: _Worker | None = self._own.__dict__.get("worker")
        if worker is None and not self._is_closed:
            worker = _Worker(self._limits)
            with self._lock:
                self._workers.add(worker)
            self._own.__dict__["worker"] = worker
            if not worker.is_ready:
                self._drop(worker)
                return None
        return worker

    def _drop(self, worker: _Worker) -> None:
        worker.kill()
        with self._lock:
            self._workers.discard(worker)
        self._own.__dict__.pop("worker", None)
