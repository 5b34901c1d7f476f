"""The limits of a call, and the look at what it uses while it runs."""

import os
import resource
import time

from rollwright.sandboxes.inside.processes import Processes
from rollwright.sandboxes.inside.running import OPEN_FILES

__all__ = ["Limits", "Outcome", "Watch"]

SOONEST_S = 0.01
LATEST_S = 0.1
GROWTH_BYTES_PER_S = 8 * 2**30
"""Faster than memory is filled on most machines: how long a look at it may wait."""


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

    def is_full(self) -> bool:
        """Whether memory is still past its limit."""
        most = self._limits.total_memory_bytes
        return self._processes.usage(most).memory_bytes > most

    def spent(self, outcome: Outcome, session: int | None) -> Outcome:
        """The outcome with what the call took."""
        outcome.wall_s = time.monotonic() - self._began
        outcome.cpu_s = max(0.0, self._processes.settled_cpu_s(session) - self._cpu_before)
        return outcome
