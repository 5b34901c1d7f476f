"""Processes that answer a line with a line and can be killed, one for each thread of a pool.

submit (any thread, any loop) ──► executor thread ──line──► worker process ──line──► reply
├── deadline passed or worker dead: `drop`, a new one next time
└── nothing asked for `idle_s`: the process ends, a new one next time
"""

import json
import math
import os
import selectors
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar, cast
from weakref import WeakMethod

from rollwright.tasks import Json
from rollwright.verifiers.errors import VerifierSetupError

__all__ = ["LineProcess", "ProcessThreads"]

_PART_BYTES = 2**16
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
            bufsize=0,
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._max_bytes = max_bytes
        self._turn = threading.Lock()
        self._used_at = time.monotonic()
        self.is_over = False
        """It was ended while nobody asked it anything."""
        self.beginning = self.exchange(first, start_s)
        """Its first word; None where it said none in time."""

    def exchange(self, line: bytes, wall_s: float) -> Mapping[str, Json] | None:
        """The reply to a line; None where it gave none in time, or one that is too long. After None it is of no use."""
        deadline = time.monotonic() + wall_s
        with self._turn:
            try:
                received = self._received(deadline) if self._is_sent(line, deadline) else None
            except (OSError, ValueError):  # Its end is gone, or ours was closed by another thread.
                return None
            finally:
                self._used_at = time.monotonic()
        return None if received is None else cast("Mapping[str, Json]", json.loads(received))

    def _is_sent(self, line: bytes, deadline: float) -> bool:
        assert self._process.stdin is not None
        left = memoryview(line)
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while left:
                if not selector.select(max(0.0, deadline - time.monotonic())):
                    return False
                left = left[os.write(self._process.stdin.fileno(), left[:_PART_BYTES]) :]
        return True

    def _received(self, deadline: float) -> bytes | None:
        assert self._process.stdout is not None
        received = bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while not received.endswith(b"\n"):
                if len(received) > self._max_bytes or not selector.select(max(0.0, deadline - time.monotonic())):
                    return None
                part = os.read(self._process.stdout.fileno(), _PART_BYTES)
                if not part:
                    return None
                received += part
        return bytes(received)

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
        self._close_pipes()

    def end_idle(self, idle_s: float) -> None:
        """End it where nobody has asked it anything for so long; a call that comes between finds it killed."""
        if self._turn.acquire(blocking=False):
            try:
                if not self.is_over and time.monotonic() - self._used_at >= idle_s:
                    self.is_over = True
                    self.kill()
            finally:
                self._turn.release()

    def disown(self) -> None:
        """Let go of it in a forked process: it serves the one that started it."""
        self._process.returncode = 0  # Nothing is to be waited for here.
        self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue


class ProcessThreads:
    """Threads that hold a process each. Nothing is started before the first request."""

    def __init__(
        self, make: Callable[[], LineProcess], *, num_threads: int, name: str, closed: str, idle_s: float = math.inf
    ) -> None:
        """Store how they are made.

        Args:
            make: starts a process.
            num_threads: at most; one more is started only while all others are busy.
            name: of the threads.
            closed: what is said to whoever submits after `close`.
            idle_s: without a request, after which a process ends.
        """
        self._make = make
        self._idle_s = idle_s
        self._sweep: threading.Timer | None = None
        self._num_threads = num_threads
        self._name = name
        self._closed = closed
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._processes: set[LineProcess] = set()
        self._is_closed = False
        mine = WeakMethod(self._begin_anew)

        def begin_anew() -> None:
            if (begin := mine()) is not None:
                begin()

        os.register_at_fork(after_in_child=begin_anew)

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
        if process is not None and process.is_over:
            process = None
        if process is None and not self._is_closed:
            process = self._make()
            with self._lock:
                self._processes.add(process)
                self._sweep_later()
            self._own.__dict__["process"] = process
        return process

    @property
    def num_processes(self) -> int:
        """That run now."""
        with self._lock:
            return sum(not process.is_over for process in self._processes)

    def drop(self, process: LineProcess) -> None:
        """Kill a process; its thread gets another one next time."""
        process.kill()
        with self._lock:
            self._processes.discard(process)
        self._own.__dict__.pop("process", None)

    def _sweep_later(self) -> None:
        """Look for idle processes in a while; the lock is held."""
        if self._sweep is not None or self._is_closed or not self._processes or math.isinf(self._idle_s):
            return
        mine = WeakMethod(self._end_idle)

        def sweep() -> None:
            if (end_idle := mine()) is not None:
                end_idle()

        self._sweep = threading.Timer(self._idle_s / 2, sweep)
        self._sweep.daemon = True
        self._sweep.start()

    def _end_idle(self) -> None:
        with self._lock:
            processes = tuple(self._processes)
        for process in processes:
            process.end_idle(self._idle_s)
        with self._lock:
            self._processes = {process for process in self._processes if not process.is_over}
            self._sweep = None
            self._sweep_later()

    def _begin_anew(self) -> None:
        """In a forked process, which has neither the threads nor a right to the processes."""
        processes, self._processes = self._processes, set()
        self._lock = threading.Lock()
        self._executor = None
        self._own = threading.local()
        self._sweep = None
        for process in processes:
            process.disown()

    def close(self) -> None:
        """End all processes; calls that still run find theirs dead."""
        with self._lock:
            self._is_closed = True
            executor, self._executor = self._executor, None
            sweep, self._sweep = self._sweep, None
            processes = tuple(self._processes)
        if sweep is not None:
            sweep.cancel()
        for process in processes:
            process.kill()
        if executor is not None:
            executor.shutdown(wait=True, cancel_futures=True)
        for process in tuple(self._processes):
            self.drop(process)
