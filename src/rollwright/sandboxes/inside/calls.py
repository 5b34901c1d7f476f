"""One call: start or wake a process, read what it prints, hold it to its limits, end what it left behind."""

import os
import select
import time
from _collections_abc import Callable

from rollwright.sandboxes.inside.outputs import Feed, Kept
from rollwright.sandboxes.inside.plain import SIGCONT, SIGXCPU, suppress
from rollwright.sandboxes.inside.processes import END_S, Processes, is_awake
from rollwright.sandboxes.inside.running import CELL, COMMAND, DONE, OUT_OF_MEMORY, REAP, Child
from rollwright.sandboxes.inside.watching import Limits, Outcome, Watch

__all__ = ["Calls"]

REAP_S = 0.2
MARK_BYTES = 8
REPORT_BYTES = 4_096
"""Read at once of what a process reports, and no more: one that goes on writing must not be read for ever."""
AWAKE_S = 0.002
CHUNKS = 16
CHANNEL = 3
"""Of the fork server; it hangs up when nobody waits for the call any more."""


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
        self.ended: tuple[bytes, int] | None = None
        self._mark = b""
        self._late: set[bytes] = set()
        """Of commands that were waited for no longer; each may still be answered, and one by one before the last."""

    def command(self, kind: bytes, code: bytes = b"") -> bytes:
        """A command whose end only who reads it can report."""
        _empty(self.report)
        if self._mark and self.ended is None:
            self._late.add(self._mark)
        self.ended, self._mark = None, os.urandom(MARK_BYTES)
        return COMMAND.pack(kind, self._mark, len(code)) + code

    def take_report(self) -> str | None:
        """Keep how the command ended; "failed" where code of the session wrote into its report."""
        data = os.read(self.report, REPORT_BYTES)
        while data[:MARK_BYTES] in self._late:
            self._late.discard(data[:MARK_BYTES])
            data = data[DONE.size :]
        if not data:
            return None
        mark, kind, exit_code = DONE.unpack(data[: DONE.size].ljust(DONE.size, b"\0"))
        if mark != self._mark:
            return "failed"
        self.ended = kind, exit_code
        return "reported"

    def close(self) -> None:
        """Give back the descriptors."""
        super().close()
        os.close(self.commands)


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
            outcome = _outcome(call, end)
            self._end_all(self._session)
            if outcome.status == "memory_limit" and watch.is_full():
                self._processes.end(None)
            if self._session and _is_over(self._session):
                # The call took the session with it: a signal to everyone, or memory that had to be given back.
                self._session.close()
                self._session = None
                outcome.lost_session = True
            _drain_rest(call, kept)
            return watch.spent(outcome, self._session_pid)
        finally:
            call.close()

    def cell(self, become: Callable[[int, int], int], code: bytes, wall_s: float, kept: tuple[Kept, Kept]) -> Outcome:
        """Run the next cell of the session, which is started where there is none."""
        watch = Watch(self._processes, self._limits, wall_s, self._session_pid)
        session = self._session = self._session or self._opened(become)
        command = session.command(CELL, code)
        os.kill(session.pid, SIGCONT)
        end = self._followed(session, watch, kept, Feed(os.dup(session.commands), command))
        if session.ended:
            kind, exit_code = session.ended
            self._end_all(session)
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
            # What a handler or a thread of the session began while it was awake.
            self._processes.end(keep.pid)

    def _reap_inside(self, session: Session) -> None:
        """Let the session take in its own dead; one that does not is ended by the next call that finds it so."""
        with suppress(OSError):
            command = session.command(REAP)
            os.kill(session.pid, SIGCONT)
            os.write(session.commands, command)
            if select.select([session.report], [], [], REAP_S)[0]:
                session.take_report()
        self._processes.freeze()

    def _started(self, become: Callable[[int], int], stdin: bytes) -> tuple[Call, int]:
        source, feed = os.pipe() if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        out, out_end = os.pipe()
        error, error_end = os.pipe()
        report, report_end = os.pipe()

        def run(descriptors: list[int]) -> int:
            return become(descriptors[0])

        pid = self._forked(self.child, [source, out_end, error_end], [report_end], run)
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

        child = self.child.without_cpu_limit()
        pid = self._forked(child, [source, out_end, error_end], [commands, report_end], run)
        for descriptor in (source, out_end, error_end, report_end, commands):
            os.close(descriptor)
        for descriptor in (out, error, report, feed):
            os.set_blocking(descriptor, False)
        return Session(pid, (out, error), report, feed)

    def _forked(self, child: Child, streams: list[int], keep: list[int], run: Callable[[list[int]], int]) -> int:
        pid = os.fork()
        if pid:
            return pid
        exit_code = 125
        try:
            exit_code = run(child.settle(streams, keep, self._be_dumpable))
        except OSError as error:
            # A program before this one may have closed its work folder.
            os.write(2, f"no program can be started in this sandbox: {error}\n".encode())
        finally:
            os._exit(exit_code & 0xFF)

    def _followed(self, call: Call, watch: Watch, kept: tuple[Kept, Kept], feed: Feed) -> str:
        """Read and feed until it ends; `ended`, the limit that was passed, or `reported` by a cell."""
        keep = {call.pid} if self._session is None else {call.pid, self._session.pid}
        turns = Turns(call, kept, feed)
        try:
            while True:
                if end := turns.take(watch.left_s()):
                    return end
                if limit := watch.passed(keep):
                    return limit
        finally:
            feed.close()


class Turns:
    """Waits for what a call's descriptors have to say, and answers each."""

    def __init__(self, call: Call, kept: tuple[Kept, Kept], feed: Feed) -> None:
        self._call = call
        self._feed = feed
        self._outputs = dict(zip(call.outputs, kept, strict=True))
        self._poll = select.poll()
        for descriptor in (*call.outputs, call.pidfd, *([call.report] if isinstance(call, Session) else [])):
            self._poll.register(descriptor, select.POLLIN)
        if feed.descriptor >= 0:
            self._poll.register(feed.descriptor, select.POLLOUT)
        self._poll.register(CHANNEL, 0)

    def take(self, wait_s: float) -> str | None:
        """One turn; how the call ended, where it is over."""
        for descriptor, event in self._poll.poll(wait_s * 1000 + 1):
            if descriptor == CHANNEL:
                raise EOFError
            if descriptor in self._outputs:
                if not self._outputs[descriptor].drain(descriptor, CHUNKS):
                    self._poll.unregister(descriptor)
            elif descriptor == self._feed.descriptor:
                if not self._feed.advance(event):
                    self._poll.unregister(descriptor)
                    self._feed.close()
            elif descriptor == self._call.pidfd:
                return "ended"
            elif isinstance(self._call, Session) and event & select.POLLIN:
                return self._call.take_report()
            else:
                self._poll.unregister(descriptor)
        return None


def _outcome(call: Call, end: str) -> Outcome:
    """What the exit status of an ended process says, or the limit that is about to end it."""
    if end != "ended":
        return Outcome(end, None)
    exit_code = os.waitstatus_to_exitcode(os.waitpid(call.pid, 0)[1])
    if exit_code == -SIGXCPU:
        return Outcome("cpu_limit", None)
    if exit_code == 1:
        with suppress(BlockingIOError):
            if os.read(call.report, REPORT_BYTES).startswith(OUT_OF_MEMORY):
                return Outcome("memory_limit", exit_code)
    return Outcome("ok" if exit_code == 0 else "failed", exit_code)


def _is_over(session: Session) -> bool:
    """Whether it has ended; it is taken in then. One that was killed is awake until then, one that lives is stopped."""
    deadline = time.monotonic() + END_S
    try:
        while True:
            was_awake = is_awake(session.pid)  # Before it is asked for: what ended meanwhile is found.
            if os.waitpid(session.pid, os.WNOHANG)[0] == session.pid:
                return True
            if not was_awake or time.monotonic() > deadline:
                return False
            select.select([session.pidfd], [], [], AWAKE_S)
    except ChildProcessError:
        return True


def _empty(report: int) -> None:
    """Drop what stands in a pipe; who could write into it is ended or stopped."""
    with suppress(BlockingIOError):
        while os.read(report, 65_536):
            pass


def _drain_rest(call: Call, kept: tuple[Kept, Kept]) -> None:
    """Read what stands in the pipes of processes that are ended or stopped."""
    for descriptor, stream in zip(call.outputs, kept, strict=True):
        stream.drain(descriptor, 64)
