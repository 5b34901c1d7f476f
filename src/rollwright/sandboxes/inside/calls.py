"""One call: start or wake a process, read what it prints, hold it to its limits, end what it left behind."""

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from rollwright.sandboxes.inside.outputs import Kept
from rollwright.sandboxes.inside.processes import Processes
from rollwright.sandboxes.inside.running import CELL, DONE, OPEN_FILES, OUT_OF_MEMORY, REAP, Child

__all__ = ["Call", "Calls", "Limits", "Outcome"]

SOONEST_S = 0.01
LATEST_S = 0.1
GROWTH_BYTES_PER_S = 8 * 2**30
"""Faster than memory is filled on most machines: how long a look at it may wait."""
REAP_S = 0.2
CHUNKS = 16
GONE = select.POLLHUP | select.POLLERR | select.POLLNVAL


class Limits:
    """Of every call; the wall clock is the call's own."""

    def __init__(self, numbers: dict[str, float], output_bytes: int) -> None:
        self.cpu_s = float(numbers["cpu_s"])
        self.memory_bytes = int(numbers["memory_bytes"])
        self.total_memory_bytes = int(numbers["total_memory_bytes"])
        self.processes = int(numbers["processes"])
        self.disk_bytes = int(numbers["disk_bytes"])
        self.output_bytes = output_bytes

    def of_child(self) -> dict[int, tuple[int, int]]:
        """What the kernel holds a process to."""
        cpu_s = int(self.cpu_s) + 2
        return {
            resource.RLIMIT_AS: (self.memory_bytes, self.memory_bytes),
            resource.RLIMIT_CORE: (0, 0),
            resource.RLIMIT_CPU: (cpu_s, cpu_s),
            resource.RLIMIT_FSIZE: (self.disk_bytes, self.disk_bytes),
            resource.RLIMIT_MEMLOCK: (65_536, 65_536),
            resource.RLIMIT_MSGQUEUE: (0, 0),
            resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES),
            # The server and the session, which the caller did not start, come on top.
            resource.RLIMIT_NPROC: (self.processes + 2, self.processes + 2),
            resource.RLIMIT_SIGPENDING: (256, 256),
        }


class Outcome:
    """How the call ended."""

    def __init__(self, status: str, exit_code: int | None) -> None:
        self.status = status
        self.exit_code = exit_code
        self.wall_s = 0.0
        self.cpu_s = 0.0
        self.lost_session = False


class Call:
    """A process that runs, with its streams."""

    def __init__(self, pid: int, outputs: tuple[int, int], report: int) -> None:
        self.pid = pid
        self.outputs = outputs
        self.report = report
        self.pidfd = os.pidfd_open(pid)

    def close(self) -> None:
        """Give back the descriptors."""
        for descriptor in (*self.outputs, self.report, self.pidfd):
            os.close(descriptor)


class Session(Call):
    """The process that runs cells."""

    def __init__(self, pid: int, outputs: tuple[int, int], report: int, commands: int) -> None:
        super().__init__(pid, outputs, report)
        self.commands = commands

    def close(self) -> None:
        """Give back the descriptors."""
        super().close()
        os.close(self.commands)


class Watch:
    """What a call has used since it began, and which limit it is past."""

    def __init__(self, processes: Processes, limits: Limits, wall_s: float, session: int | None) -> None:
        self._processes = processes
        self._limits = limits
        self._began = time.monotonic()
        self._deadline = self._began + wall_s
        self._cpu_before = processes.settled_cpu_s(session)
        self._next = self._began + SOONEST_S

    def left_s(self) -> float:
        """Until the next look."""
        return max(0.0, min(self._next, self._deadline) - time.monotonic())

    def passed(self, keep: set[int]) -> str | None:
        """The limit that is passed, if one is; orphans that ended are taken in, the kept ones are not."""
        now = time.monotonic()
        if now >= self._deadline:
            return "timeout"
        if now < self._next:
            return None
        self._processes.reap(keep)
        usage = self._processes.usage(self._limits.total_memory_bytes)
        cpu_left_s = self._limits.cpu_s - (usage.cpu_s - self._cpu_before)
        room = self._limits.total_memory_bytes - usage.memory_bytes
        if cpu_left_s <= 0:
            return "cpu_limit"
        if room < 0:
            return "memory_limit"
        if usage.num_processes > self._limits.processes + 2:
            return "failed"
        cores = os.cpu_count() or 1
        self._next = now + min(LATEST_S, max(SOONEST_S, min(room / GROWTH_BYTES_PER_S, cpu_left_s / cores)))
        return None

    def spent(self, outcome: Outcome, session: int | None) -> Outcome:
        """The outcome with what the call took."""
        outcome.wall_s = time.monotonic() - self._began
        outcome.cpu_s = max(0.0, self._processes.settled_cpu_s(session) - self._cpu_before)
        return outcome


class Calls:
    """Runs calls one at a time; keeps the session between them, stopped."""

    def __init__(self, processes: Processes, child: Child, limits: Limits, be_dumpable: Callable[[], None]) -> None:
        self._processes = processes
        self.child = child
        self._limits = limits
        self._be_dumpable = be_dumpable
        self._session: Session | None = None

    def run(self, become: Callable[[int], int], stdin: bytes, wall_s: float, kept: tuple[Kept, Kept]) -> Outcome:
        """Run a process of its own to its end."""
        watch = Watch(self._processes, self._limits, wall_s, self._session_pid)
        call, feed = self._started(become, stdin)
        try:
            end = self._followed(call, watch, kept, Feed(feed, stdin))
            outcome = _outcome(call, end or "ended")
            self._end_all(self._session)
            _drain_rest(call, kept)
            return watch.spent(outcome, self._session_pid)
        finally:
            call.close()

    def cell(self, become: Callable[[int, int], int], code: bytes, wall_s: float, kept: tuple[Kept, Kept]) -> Outcome:
        """Run the next cell of the session, which is started where there is none."""
        watch = Watch(self._processes, self._limits, wall_s, self._session_pid)
        session = self._session = self._session or self._opened(become)
        _drain_report(session.report)
        os.kill(session.pid, signal.SIGCONT)
        end = self._followed(session, watch, kept, Feed(os.dup(session.commands), CELL.pack(b"C", len(code)) + code))
        if end is None:
            self._end_all(session)
            report = os.read(session.report, DONE.size)
            kind, exit_code = DONE.unpack(report.ljust(DONE.size, b"\0"))
            outcome = Outcome("memory_limit" if kind == OUT_OF_MEMORY else "failed" if exit_code else "ok", exit_code)
            _drain_rest(session, kept)
            return watch.spent(outcome, session.pid)
        return self._lost(session, watch, end, kept)

    def end(self) -> None:
        """End everything."""
        self._processes.end(None)

    @property
    def _session_pid(self) -> int | None:
        return self._session.pid if self._session else None

    def _lost(self, session: Session, watch: Watch, end: str, kept: tuple[Kept, Kept]) -> Outcome:
        self._session = None
        outcome = _outcome(session, end)
        self._end_all(None)
        outcome.status = "failed" if outcome.status == "ok" else outcome.status
        outcome.lost_session = True
        _drain_rest(session, kept)
        session.close()
        return watch.spent(outcome, None)

    def _end_all(self, keep: Session | None) -> None:
        self._processes.end(keep.pid if keep else None)
        if keep and self._processes.orphaned_zombies(keep.pid):
            self._reap_inside(keep)

    def _reap_inside(self, session: Session) -> None:
        """Let the session take in its own dead; one that does not is ended by the next call that finds it so."""
        with suppress(OSError):
            _drain_report(session.report)
            os.kill(session.pid, signal.SIGCONT)
            os.write(session.commands, CELL.pack(REAP, 0))
            select.select([session.report], [], [], REAP_S)
            _drain_report(session.report)
        self._processes.freeze()

    def _started(self, become: Callable[[int], int], stdin: bytes) -> tuple[Call, int]:
        source, feed = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        out, out_end = os.pipe()
        error, error_end = os.pipe()
        report, report_end = os.pipe()

        def run(descriptors: list[int]) -> int:
            return become(descriptors[0])

        pid = self._forked([source, out_end, error_end], [report_end], run)
        for descriptor in (source, out_end, error_end, report_end):
            os.close(descriptor)
        for descriptor in (out, error, report, *([feed] if stdin else [])):
            os.set_blocking(descriptor, False)
        return Call(pid, (out, error), report), feed

    def _opened(self, become: Callable[[int, int], int]) -> Session:
        source = os.open(os.devnull, os.O_RDONLY)
        (out, out_end), (error, error_end), (report, report_end), (commands, feed) = (os.pipe() for _ in range(4))

        def run(descriptors: list[int]) -> int:
            return become(descriptors[0], descriptors[1])

        pid = self._forked([source, out_end, error_end], [commands, report_end], run)
        for descriptor in (source, out_end, error_end, report_end, commands):
            os.close(descriptor)
        for descriptor in (out, error, report, feed):
            os.set_blocking(descriptor, False)
        return Session(pid, (out, error), report, feed)

    def _forked(self, streams: list[int], keep: list[int], run: Callable[[list[int]], int]) -> int:
        pid = os.fork()
        if pid:
            return pid
        exit_code = 125
        try:
            exit_code = run(self.child.settle(streams, keep, self._be_dumpable))
        finally:
            os._exit(exit_code & 0xFF)

    def _followed(self, call: Call, watch: Watch, kept: tuple[Kept, Kept], feed: "Feed") -> str | None:
        """Read and feed until it ends; `ended`, the limit that was passed, or None where a cell reports its end."""
        poll = select.poll()
        keep = {call.pid} | ({self._session.pid} if self._session else set())
        outputs = dict(zip(call.outputs, kept, strict=True))
        for descriptor in call.outputs:
            poll.register(descriptor, select.POLLIN)
        poll.register(call.pidfd, select.POLLIN)
        reports = call.report if isinstance(call, Session) else -1
        if reports >= 0:
            poll.register(reports, select.POLLIN)
        if feed.descriptor >= 0:
            poll.register(feed.descriptor, select.POLLOUT)
        try:
            while True:
                for descriptor, event in poll.poll(watch.left_s() * 1000 + 1):
                    if descriptor in outputs:
                        if not outputs[descriptor].drain(descriptor, CHUNKS):
                            poll.unregister(descriptor)
                    elif descriptor == feed.descriptor:
                        if not feed.advance(event):
                            poll.unregister(descriptor)
                            feed.close()
                    elif descriptor == call.pidfd:
                        return "ended"
                    elif event & select.POLLIN:
                        return None
                    else:
                        poll.unregister(descriptor)
                if limit := watch.passed(keep):
                    return limit
        finally:
            feed.close()


class Feed:
    """Bytes on their way into a pipe that may be full."""

    def __init__(self, descriptor: int, data: bytes) -> None:
        self.descriptor = descriptor
        self._left = memoryview(data)

    def advance(self, event: int) -> bool:
        """Write what fits; False when all is written or nobody reads any more."""
        if event & GONE:
            return False
        with suppress(BlockingIOError):
            try:
                self._left = self._left[os.write(self.descriptor, self._left[:65_536]) :]
            except BrokenPipeError:
                return False
        return bool(self._left)

    def close(self) -> None:
        """Let the reader see the end."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _outcome(call: Call, end: str) -> Outcome:
    """What the exit status of an ended process says, or the limit that is about to end it."""
    if end != "ended":
        return Outcome(end, None)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(call.pid, 0)[1])
    if exit_code == -signal.SIGXCPU:
        return Outcome("cpu_limit", None)
    if exit_code == 1 and _drain_report(call.report).startswith(OUT_OF_MEMORY):
        return Outcome("memory_limit", exit_code)
    return Outcome("ok" if exit_code == 0 else "failed", exit_code)


def _drain_report(report: int) -> bytes:
    data = b""
    with suppress(BlockingIOError):
        while piece := os.read(report, 4_096):
            data = data or piece
    return data


def _drain_rest(call: Call, kept: tuple[Kept, Kept]) -> None:
    """Read what stands in the pipes of processes that are ended or stopped."""
    for descriptor, stream in zip(call.outputs, kept, strict=True):
        stream.drain(descriptor, 64)
