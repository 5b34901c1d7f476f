"""The processes of a sandbox, seen from outside by their namespace."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

__all__ = ["is_stopped", "processes_within", "pinned_namespace"]


def processes_within(namespace: str) -> set[int]:
    """Numbers, outside, of all living processes of a namespace of processes.

    Args:
        namespace: As `/proc/PID/ns/pid` names it.
    """
    found: set[int] = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(f"{entry.path}/ns/pid") == namespace and not _is_dead(entry.path):
                    found.add(int(entry.name))
    return found


def is_stopped(process: int) -> bool:
    """Whether every thread of a process is stopped, or it is gone."""
    states: list[str] = []
    with contextlib.suppress(OSError):
        for stat in Path(f"/proc/{process}/task").glob("*/stat"):
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return all(state in "TtZX" for state in states)


@contextlib.contextmanager
def pinned_namespace(namespace: str) -> Generator[None]:
    """Hold a namespace, so that its number is given to no other while it is looked for."""
    for process in sorted(processes_within(namespace)):
        with contextlib.suppress(OSError):
            held = os.open(f"/proc/{process}/ns/pid", os.O_RDONLY)
            break
    else:
        raise AssertionError(f"no process of {namespace} is to be seen from outside")
    try:
        yield
    finally:
        os.close(held)


def _is_dead(folder: str) -> bool:
    """Whether every thread of it has ended, and its parent, a stopped session, has not taken note of that."""
    stats = [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(folder, "task").glob("*/stat")]
    return all(state in "ZX" for state in stats)
