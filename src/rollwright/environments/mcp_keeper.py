"""A process around the command of an MCP server: it ends all that the server started, with it or with our process.

It runs as a script of the standard library alone, on Linux. The command has the standard streams to itself. Orphans of
the server fall to the keeper, whatever session they made for themselves, and the kernel tells the keeper when the
process that started it is no more.
"""

import contextlib
import ctypes
import os
import signal
import sys
import time
from typing import NoReturn

__all__ = ["main"]

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 1.0
"""For a server that was asked to end, less than the client waits before it kills the keeper."""
KILL_S = 5.0
AWAITED = (signal.SIGCHLD, signal.SIGTERM)
NOT_RUN = 127


def main() -> NoReturn:
    """Keep the command of the arguments behind the first, which is the process id of whoever starts this."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    prctl = ctypes.CDLL(None).prctl
    signal.pthread_sigmask(signal.SIG_BLOCK, AWAITED)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(f"process {parent}, for which {command[0]} is kept, is no more")
    server = os.fork()
    if server == 0:
        _become(command)
    _let_go_of_streams()
    status = _waited(server, parent)
    _end_children()
    os._exit(status)


def _become(command: list[str]) -> NoReturn:
    """Run the command as if no interpreter had been between it and who asked for it."""
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, AWAITED)
    try:
        # Not os.environ: an interpreter in the C locale writes variables of its own there.
        with open("/proc/self/environ", "rb") as file:
            pairs = [entry.split(b"=", 1) for entry in file.read().split(b"\0") if b"=" in entry]
        os.execvpe(command[0], command, {name: value for name, value in pairs})
    except OSError as error:
        os.write(2, f"{command[0]} cannot be run: {error}\n".encode(errors="replace"))
    os._exit(NOT_RUN)


def _let_go_of_streams() -> None:
    """The ends of input and output are the server's alone."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)


def _waited(server: int, parent: int) -> int:
    """The exit code of the server, once it has ended or must: it was asked to a while ago, or its owner is gone."""
    deadline = float("inf")
    while os.getppid() == parent and time.monotonic() < deadline:
        heard = signal.sigtimedwait(AWAITED, min(max(deadline - time.monotonic(), 0.0), GRACE_S))
        if heard is not None and heard.si_signo == signal.SIGTERM:
            deadline = min(deadline, time.monotonic() + GRACE_S)
        code = _taken_in(server)
        if code is not None:
            return code
    return 128 + signal.SIGKILL


def _taken_in(server: int) -> int | None:
    """Take in what has ended; the exit code of the server, where it is among them, as a shell gives it."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == server:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
    return None


def _end_children() -> None:
    """Kill and take in all descendants; those of a child fall to this process when the child has ended."""
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
            signal.sigtimedwait({signal.SIGCHLD}, GRACE_S / 10)
            continue
        return


def _children() -> list[int]:
    """Processes whose parent this one is, of any of their threads."""
    found: list[int] = []
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", "rb") as file:
                    if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                        found.append(int(name))
    return found


if __name__ == "__main__":
    main()
