"""What a forked child does: become the program, the command, or the session that runs one cell after another.

Everything here shares a process with code that nobody trusts. What it reports is about itself alone, and the fork
server believes none of it beyond that.
"""

import _ast
import atexit
import builtins
import io
import os
import resource
import struct
import sys
import types
from _collections_abc import Callable, Iterator

__all__ = [
    "CELL",
    "COMMAND",
    "DONE",
    "OUT_OF_MEMORY",
    "REAP",
    "Child",
    "become_command",
    "become_program",
    "become_session",
]

COMMAND = struct.Struct("!c8sI")
"""What a session is told to do: the kind, a mark of this one command, and the size of the code that follows."""
DONE = struct.Struct("!8sci")
"""What is reported of its end: its mark, how it ended, and the exit code."""
CELL = b"C"
REAP = b"R"
OUT_OF_MEMORY = b"M"
OPEN_FILES = 256
SOURCES: dict[str, str] = {}
"""Of what this process ran, by the name that tracebacks give it."""


class Child:
    """What a child needs to know of its limits and its place."""

    def __init__(self, work: str, environment: dict[str, str], limits: dict[int, tuple[int, int]]) -> None:
        self.work = work
        self.environment = environment
        self.limits = limits

    def without_cpu_limit(self) -> "Child":
        """The same for a process that lives as long as its episode: what it uses is measured call by call."""
        limits = {which: limit for which, limit in self.limits.items() if which != resource.RLIMIT_CPU}
        return Child(self.work, self.environment, limits)

    def settle(self, streams: list[int], keep: list[int], be_dumpable: Callable[[], None]) -> list[int]:
        """Take the streams as 0, 1, 2, the kept descriptors after them, and close all else; then the limits."""
        os.setsid()
        moved = [os.dup2(stream, 200 + place) for place, stream in enumerate([*streams, *keep])]
        for place, stream in enumerate(moved):
            os.dup2(stream, place, inheritable=place < len(streams))
        os.closerange(len(moved), 65_536)
        os.chdir(self.work)
        for which, limit in self.limits.items():
            resource.setrlimit(which, limit)
        os.nice(5)
        be_dumpable()
        return list(range(len(streams), len(moved)))


def become_command(child: Child, argv: list[str]) -> int:
    """Be another program; returns only where that fails."""
    try:
        os.execve(argv[0], argv, child.environment)
    except (OSError, ValueError) as error:
        os.write(2, f"{argv[0]}: {error}\n".encode())
        return 127


def become_program(code: str, argv: list[str], report: int) -> int:
    """Run code as `__main__`; the exit code."""
    main = _fresh_main()
    sys.argv = ["program.py", *argv]
    own = os.getpid()
    exit_code, is_out_of_memory = _run(lambda: _execute(code, "program.py", main.__dict__))
    exit_code = _finish(exit_code)
    if is_out_of_memory and os.getpid() == own:
        os.write(report, OUT_OF_MEMORY)
    return exit_code


def become_session(commands: int, report: int) -> int:
    """Run cells as they come, all in one module, until there are no more."""
    main = _fresh_main()
    sys.argv = ["session"]
    own = os.getpid()
    streams = (sys.stdin, sys.stdout, sys.stderr)
    copies = [os.dup(descriptor) for descriptor in (0, 1, 2)]
    number = 0
    for kind, mark, code in _commands(commands):
        if kind == REAP:
            _reap_children()
            os.write(report, DONE.pack(mark, REAP, 0))
            continue
        number += 1
        _restore(streams, copies)
        name = f"cell {number}"
        exit_code, is_out_of_memory = _run(lambda code=code, name=name: _execute_cell(code, name, main.__dict__))
        _flush()
        if os.getpid() != own:
            return exit_code
        os.write(report, DONE.pack(mark, OUT_OF_MEMORY if is_out_of_memory else CELL, exit_code))
    return 0


def _commands(commands: int) -> Iterator[tuple[bytes, bytes, str]]:
    while prefix := _read_exactly(commands, COMMAND.size):
        kind, mark, size = COMMAND.unpack(prefix)
        yield kind, mark, _read_exactly(commands, size).decode("utf-8", "replace")


def _read_exactly(descriptor: int, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = os.read(descriptor, min(size - len(data), 2**20))
        if not piece:
            return b""
        data += piece
    return bytes(data)


def _fresh_main() -> types.ModuleType:
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    return main


def _restore(streams: tuple[object, object, object], copies: list[int]) -> None:
    """Give the next cell its streams, whatever the last one made of them."""
    for place, copy in enumerate(copies):
        os.dup2(copy, place)
    opened: list[object] = []
    for place, stream in enumerate(streams):
        if isinstance(stream, io.TextIOWrapper) and not stream.closed:
            opened.append(stream)  # pyright: ignore[reportUnknownArgumentType] - of whatever buffer
            continue
        opened.append(open(place, "w" if place else "r", encoding="utf-8", errors="surrogateescape", closefd=False))
    for name, stream in zip(("stdin", "stdout", "stderr"), opened, strict=True):
        setattr(sys, name, stream)


def _run(action: Callable[[], None]) -> tuple[int, bool]:
    """Exit code as the interpreter gives it, and whether it ended for want of memory; errors are shown."""
    try:
        action()
    except SystemExit as error:
        return _exit_code(error), False
    except MemoryError as error:
        _show(error)
        return 1, True
    except BaseException as error:  # noqa: BLE001 - whatever the code raised is shown to who wrote it
        _show(error)
        return 1, False
    return 0, False


def _execute(code: str, name: str, names: dict[str, object]) -> None:
    _remember(code, name)
    exec(compile(code, name, "exec", dont_inherit=True), names)


def _execute_cell(code: str, name: str, names: dict[str, object]) -> None:
    _remember(code, name)
    tree = compile(code, name, "exec", _ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, _ast.Module)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], _ast.Expr) else None
    exec(compile(tree, name, "exec", dont_inherit=True), names)
    if isinstance(last, _ast.Expr):
        sys.displayhook(eval(compile(_ast.Expression(last.value), name, "eval", dont_inherit=True), names))


def _remember(code: str, name: str) -> None:
    """Let tracebacks show lines of it."""
    SOURCES[name] = code


def _exit_code(error: SystemExit) -> int:
    match error.code:
        case None:
            return 0
        case int():
            return error.code & 0xFF
        case _:
            _run(lambda: _write_error(f"{error.code}\n"))
            return 1


def _show(error: BaseException) -> None:
    """Print the error as the interpreter would, without the frames of this file."""
    try:
        shown = error.__traceback__
        while shown and shown.tb_frame.f_code.co_filename == __file__:
            shown = shown.tb_next
        _flush()
        # Imported where an error is shown: they take longer than most programs.
        import linecache
        import traceback

        for name, code in SOURCES.items():
            linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
        _write_error("".join(traceback.format_exception(type(error), error, shown)))
    except BaseException:  # noqa: BLE001 - no memory is left to say it well
        os.write(2, b"MemoryError\n" if isinstance(error, MemoryError) else b"an error that cannot be shown\n")


def _write_error(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def _finish(exit_code: int) -> int:
    """End as the interpreter ends: threads waited for, exit functions run, streams flushed."""
    threading = sys.modules.get("threading")
    if threading:
        _run(threading._shutdown)
    _run(atexit._run_exitfuncs)  # pyright: ignore[reportPrivateUsage] - the interpreter's own way to run them
    return exit_code if _flush() else exit_code or 120


def _flush() -> bool:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001 - the program may have put anything in their place
        return False
    return True


def _reap_children() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
