"""The fork server: process 1 of its sandbox, out of reach of what it starts. Answers one request at a time.

It holds nothing that a program may not read: its children are copies of it. It is not dumpable, so that no program may
open its memory, and as process 1 of its namespace it takes no signal from inside.
"""

import _sitebuiltins
import builtins
import ctypes
import fcntl
import gc
import os
import sys
from _collections_abc import Callable

from rollwright.sandboxes.inside import filing
from rollwright.sandboxes.inside.calls import CHANNEL, Calls
from rollwright.sandboxes.inside.frames import LENGTHS, Header, answer_head, lengths_of, packed, request_header
from rollwright.sandboxes.inside.outputs import Kept
from rollwright.sandboxes.inside.processes import Processes
from rollwright.sandboxes.inside.running import Child, become_command, become_program, become_session
from rollwright.sandboxes.inside.watching import Limits, Outcome

__all__ = ["serve"]

PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
PR_SET_CHILD_SUBREAPER = 36
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2


class Channel:
    """The way to those who ask; no program has a descriptor of it."""

    def receive(self) -> tuple[Header, bytes]:
        """The next request; the end of the process where nobody asks any more."""
        num_header, num_blob = lengths_of(self._exactly(LENGTHS.size))
        return request_header(self._exactly(num_header)), self._exactly(num_blob)

    def send(self, header: Header, *blobs: bytes) -> None:
        """An answer."""
        view = memoryview(packed(answer_head(header), *blobs))
        while view:
            view = view[os.write(CHANNEL, view) :]

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = os.read(CHANNEL, min(size - len(data), 2**20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


class Server:
    """Requests in, answers out."""

    def __init__(self, header: Header, be_dumpable: Callable[[], None]) -> None:
        numbers = header["limits"]
        assert isinstance(numbers, dict)
        self._limits = Limits(numbers, int(numbers["output_bytes"]))  # pyright: ignore[reportUnknownArgumentType] - read JSON
        self._work = str(header["work"])
        disks = header["disks"]
        environment = header["environment"]
        assert isinstance(disks, list) and isinstance(environment, dict)
        variables = {str(name): str(value) for name, value in environment.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] - read JSON
        os.environ.clear()
        os.environ.update(variables)
        child = Child(self._work, variables, self._limits.of_child())
        self._calls = Calls(Processes(list(map(str, disks))), child, self._limits, be_dumpable)  # pyright: ignore[reportUnknownArgumentType] - read JSON
        sys.path.insert(0, self._work)
        sys.dont_write_bytecode = True
        for name in ("exit", "quit"):  # The interpreter's own, which come with `site`.
            setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D"))

    def end(self) -> None:
        """End what is left inside."""
        self._calls.end()

    def answer(self, header: Header, blob: bytes, channel: Channel) -> None:
        """Do what was asked for and say what came of it."""
        match header["op"]:
            case "python" | "program" | "shell" as kind:
                kept = (Kept(self._limits.output_bytes), Kept(self._limits.output_bytes))
                outcome = self._called(str(kind), header, blob, kept)
                channel.send(*_told(outcome, kept))
            case "write":
                try:
                    filing.write_file(self._work, str(header["path"]), blob)
                    channel.send({})
                except OSError as error:
                    channel.send({"refused": str(error)})
            case "read":
                found = filing.read_file(self._work, str(header["path"]), int(str(header["most"])))
                channel.send({"is_there": found is not None}, found or b"")
            case "files":
                channel.send({"files": filing.listed(self._work)})
            case other:
                raise ValueError(f"no such request: {other}")

    def _called(self, kind: str, header: Header, blob: bytes, kept: tuple[Kept, Kept]) -> Outcome:
        wall_s = float(str(header["wall_s"]))
        if kind == "python":
            return self._calls.cell(become_session, blob, wall_s, kept)
        num_code = int(str(header["code_bytes"]))
        code, stdin = blob[:num_code].decode("utf-8", "surrogateescape"), blob[num_code:]
        if kind == "shell":
            child = self._calls.child

            def command(report: int) -> int:
                return become_command(child, ["/bin/sh", "-c", code])

            return self._calls.run(command, stdin, wall_s, kept)
        argv = header["argv"]
        assert isinstance(argv, list)
        arguments: list[str] = list(map(str, argv))  # pyright: ignore[reportUnknownArgumentType] - read JSON

        def program(report: int) -> int:
            return become_program(code, arguments, report)

        return self._calls.run(program, stdin, wall_s, kept)


def serve() -> None:
    """Set up, say so, and answer until nobody asks."""
    os.closerange(CHANNEL + 1, 65_536)
    channel = Channel()
    header, filtering = channel.receive()
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    packages, modules = header["packages"], header["preload"]
    assert isinstance(packages, str) and isinstance(modules, list)
    if packages:
        sys.path.append(packages)
    try:
        for module in map(str, modules):  # pyright: ignore[reportUnknownArgumentType] - read JSON
            __import__(module)
    except Exception as error:  # noqa: BLE001 - whatever a module raises is told to who asked for it
        channel.send({"refused": f"{type(error).__name__}: {error}"})
        return
    server = Server(header, lambda: prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
    if filtering:
        _filter_calls(prctl, filtering)
    fcntl.fcntl(CHANNEL, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    null = os.open(os.devnull, os.O_RDWR)
    for place in (0, 1, 2):
        os.dup2(null, place)
    os.close(null)
    gc.freeze()
    channel.send({"ready": True})
    try:
        while True:
            server.answer(*channel.receive(), channel)
    except EOFError:
        server.end()
    except Exception as error:
        # Of the server's own making: told, so that nobody takes it for the program's.
        import traceback

        channel.send({"broken": "".join(traceback.format_exception(error))[-2_000:]})
        raise


def _told(outcome: Outcome, kept: tuple[Kept, Kept]) -> tuple[Header, bytes, bytes, bytes, bytes]:
    header: Header = {
        "status": outcome.status,
        "exit_code": outcome.exit_code,
        "wall_s": outcome.wall_s,
        "cpu_s": outcome.cpu_s,
        "lost_session": outcome.lost_session,
        "totals": [stream.total for stream in kept],
        "sizes": [size for stream in kept for size in (len(stream.head), len(stream.tail))],
    }
    out, error = kept
    return header, bytes(out.head), out.tail, bytes(error.head), error.tail


def _filter_calls(prctl: Callable[..., int], instructions: bytes) -> None:
    """Put a filter of system calls on this process, where no starter has done so."""

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

    program = Program(len(instructions) // 8, instructions)
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel takes no filter of system calls")
