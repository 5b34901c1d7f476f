"""What a drill does to the machine: processes that end, a disk without room, files that are cut. Linux."""

import os
import resource
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["cut_file", "end_descendants", "limit_files", "unlimited_files"]


def end_descendants(script: str) -> int:
    """Kill this process's descendants whose own or whose parent's command line names `script`.

    Args:
        script: a file's name, such as that of a worker.

    Returns:
        How many were ended.
    """
    ended = 0
    for pid in _below(os.getpid(), script):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            ended += 1
    return ended


def limit_files(num_bytes: int) -> None:
    """No file of this process may grow beyond that: the system then says what it says on a full disk."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))


@contextmanager
def unlimited_files() -> Generator[None]:
    """Whatever `limit_files` did in the block ends with it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def cut_file(path: Path) -> bytes:
    """Cut a file to its first half, as a disk does that lost its power; gives back what it was."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return content


def _below(parent: int, script: str) -> list[int]:
    """Descendants that run the script, or that such a one started; of these the deepest first."""
    found: list[int] = []
    for child in _children(parent):
        deeper = _below(child, script)
        if script in _command(child):
            deeper = [*_all_below(child)] or [child]
        found += deeper
    return found


def _all_below(parent: int) -> list[int]:
    return [pid for child in _children(parent) for pid in (*_all_below(child), child)]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(word) for word in file.read_text().split()]
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
