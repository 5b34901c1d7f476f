"""Processes that answer a line with a line and can be killed, one for each thread of a pool.

submit (any thread, any loop) ──► executor thread ──line──► worker process ──line──► reply
└── deadline passed or worker dead: `drop`, a new one next time
"""

import json
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar, cast

from rollwright.tasks import Json
from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["LineProcess", "ProcessThreads"]

Parameters = ParamSpec("Parameters")
Given = TypeVar("Given")


class LineProcess:
    """One process, used by one thread. Each line is a JSON object."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str], first: bytes, start_s: float, max_bytes: int
    ) -> None:
        """Start it and wait for its first word.

        Args:
            command: what runs.
            environment: all of its variables.
            first: a line that it is given at once; may be empty.
            start_s: how long it may take to say its first word.
            max_bytes: of a reply.
        """
        self._process = subprocess.Popen(  # noqa: S603 - our own file, no shell
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environment),
            start_new_session=True,
        )
        self._max_bytes = max_bytes
        self.beginning = self.exchange(first, start_s)
        """Its first word; None where it said none in time."""

    def exchange(self, line: bytes, wall_s: float) -> Mapping[str, Json] | None:
        """The reply to a line; None where it gave none in time."""
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
            while not received.endswith(b"\n") and len(received) < self._max_bytes:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), 2**16)
                if not part:
                    return None
                received += part
        return cast("Mapping[str, Json]", json.loads(received))

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


class ProcessThreads:
    """Threads that hold a process each. Nothing is started before the first request."""

    def __init__(self, make: Callable[[], LineProcess], *, num_threads: int, name: str, closed: str) -> None:
        """Store how they are made.

        Args:
            make: starts a process.
            num_threads: at most; one more is started only while all others are busy.
            name: of the threads.
            closed: what is said to whoever submits after `close`.
        """
        self._make = make
        self._num_threads = num_threads
        self._name = name
        self._closed = closed
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._processes: set[LineProcess] = set()
        self._is_closed = False

    def submit(
        self, call: Callable[Parameters, Given], *arguments: Parameters.args, **named: Parameters.kwargs
    ) -> "Future[Given]":
        """Run a call in one of the threads.

        Raises:
            VerifierSetupError: after `close`.
        """
        with self._lock:
            if self._is_closed:
                raise VerifierSetupError(self._closed)
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._num_threads, thread_name_prefix=self._name)
            return self._executor.submit(call, *arguments, **named)

    def mine(self) -> LineProcess | None:
        """The process of this thread, started where it has none; None after `close`."""
        process: LineProcess | None = self._own.__dict__.get("process")
        if process is None and not self._is_closed:
            process = self._make()
            with self._lock:
                self._processes.add(process)
            self._own.__dict__["process"] = process
        return process

    def drop(self, process: LineProcess) -> None:
        """Kill a process; its thread gets another one next time."""
        process.kill()
        with self._lock:
            self._processes.discard(process)
        self._own.__dict__.pop("process", None)

    def close(self) -> None:
        """End all processes; calls that still run find theirs dead."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
            processes = tuple(self._processes)
        for process in processes:
            process.kill()
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
        for process in tuple(self._processes):
            self.drop(process)
