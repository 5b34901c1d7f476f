"""What a process has open: child processes, threads, tasks, files. Read from the system, on Linux."""

import asyncio
import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Footprint", "adopt_orphans", "descendants", "end_processes", "footprint"]

_PR_SET_CHILD_SUBREAPER = 36
_PROC = Path("/proc")
_HELPERS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")
"""Of the standard library; they serve the process for as long as it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """How many of each."""

    processes: int
    threads: int
    tasks: int
    files: int
    """Open descriptors."""
    temporaries: int
    """In the folder of temporary files, where it is watched."""

    def grown_since(self, before: "Footprint") -> Mapping[str, int]:
        """What there is more of, by how much."""
        pairs = {
            "processes": self.processes - before.processes,
            "threads": self.threads - before.threads,
            "tasks of the event loop": self.tasks - before.tasks,
            "open files": self.files - before.files,
            "temporary files": self.temporaries - before.temporaries,
        }
        return {name: more for name, more in pairs.items() if more > 0}


def footprint(scratch: Path | None) -> Footprint:
    """What is open now. Called in a running event loop.

    Args:
        scratch: a folder of temporary files that nobody else uses.
    """
    gc.collect()
    fds = _PROC / "self" / "fd"
    return Footprint(
        processes=len(descendants(os.getpid())),
        threads=threading.active_count(),
        tasks=len(asyncio.all_tasks()),
        files=len(os.listdir(fds)) if fds.is_dir() else 0,
        temporaries=0 if scratch is None else sum(1 for _ in scratch.iterdir()),
    )


def adopt_orphans() -> None:
    """Become the parent of what a child leaves behind, so that it is seen; only where the system can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> frozenset[int]:
    """Living processes below a process, helpers of the standard library aside."""
    parents = dict(_parents())
    found: set[int] = set()
    for child in parents:
        above = child
        while above in parents and above != pid:
            above = parents[above]
        if above == pid and child != pid and not _is_helper(child):
            found.add(child)
    return frozenset(found)


def end_processes(pids: frozenset[int]) -> None:
    """Kill processes that are one's own descendants."""
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:  # noqa: PERF203 - it has ended meanwhile
            continue


def _parents() -> Iterator[tuple[int, int]]:
    """(process, its parent) of every process that is no zombie."""
    if not _PROC.is_dir():
        return
    for name in os.listdir(_PROC):
        if name.isdigit():
            try:
                stat = (_PROC / name / "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                yield int(name), int(parent)


def _is_helper(pid: int) -> bool:
    try:
        command = (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return True
    return any(helper in command for helper in _HELPERS)
