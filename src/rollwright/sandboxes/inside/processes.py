"""The processes of a sandbox as its fork server sees them: who is there, what they use, how all of them end."""

import os
import resource
import time

from rollwright.sandboxes.inside.plain import SIGKILL, SIGSTOP, suppress

__all__ = ["END_S", "Processes", "Usage", "is_awake"]

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
INODE_BYTES = 1_536
"""Of kernel memory for one file, however small: no size of a file system bounds it."""
SOCKET_BYTES = 212_992
"""At most in the buffer of one socket, where the machine's default is no larger; no program may make it so."""
END_S = 3.0
"""For killed processes to be gone; longer only where the kernel holds them."""


class Usage:
    """What is used at one moment."""

    def __init__(self, memory_bytes: int, cpu_s: float, num_processes: int) -> None:
        self.memory_bytes = memory_bytes
        self.cpu_s = cpu_s
        self.num_processes = num_processes


class Processes:
    """All processes but the server's own.

    Where the server is process 1 of its namespace they are all that `/proc` shows, and one signal reaches them at once.
    Elsewhere they are its descendants.
    """

    def __init__(self, disks: list[str]) -> None:
        self._own = os.getpid()
        self.is_alone = self._own == 1
        self._disks = disks
        self._socket_bytes = SOCKET_BYTES
        with suppress(OSError, ValueError):
            self._socket_bytes = max(SOCKET_BYTES, int(_read("/proc/sys/net/core/wmem_default")))
        self._has_children_listed = os.path.exists(f"/proc/self/task/{self._own}/children")

    def others(self) -> list[int]:
        """Their ids, zombies included."""
        if self.is_alone:
            return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]
        return _below(self._own) if self._has_children_listed else _below_by_parents(self._own)

    def usage(self, most_memory_bytes: int) -> Usage:
        """Memory of processes, files and sockets; CPU time of all that ran since the server began."""
        pids = self.others()
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_s = ended.ru_utime + ended.ru_stime
        memory = 0
        for pid in pids:
            fields = _stat(pid)
            if fields:
                cpu_s += sum(map(int, fields[11:15])) / TICKS_PER_S
                memory += _resident_bytes(pid, fields)
        stored = self._stored_bytes()
        if memory + stored > most_memory_bytes:
            # What forks share was counted once for each of them; now for each its part.
            memory = sum(map(_own_part_bytes, pids))
        return Usage(memory + stored, cpu_s, len(pids))

    def settled_cpu_s(self, kept: int | None) -> float:
        """CPU time of all that ran since the server began, where none but one process is left."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        fields = _stat(kept) if kept is not None else []
        return ended.ru_utime + ended.ru_stime + (sum(map(int, fields[11:15])) / TICKS_PER_S if fields else 0.0)

    def _stored_bytes(self) -> int:
        stored = 0
        for disk in self._disks:
            with suppress(OSError):
                state = os.statvfs(disk)
                stored += (state.f_blocks - state.f_bfree) * state.f_frsize
                stored += (state.f_files - state.f_ffree) * INODE_BYTES
        if self.is_alone:
            with suppress(OSError, ValueError, IndexError):
                stored += int(_read("/proc/net/sockstat").split(maxsplit=3)[2]) * self._socket_bytes
        return stored

    def freeze(self) -> list[int]:
        """Stop them all, so that none can start another; who they are."""
        if self.is_alone:
            with suppress(ProcessLookupError):
                os.kill(-1, SIGSTOP)
            return self.others()
        seen: set[int] = set()
        while True:
            found = set(self.others())
            if found <= seen:
                return sorted(found)
            for pid in found - seen:
                _signal(pid, SIGSTOP)
            seen = found

    def end(self, keep: int | None) -> None:
        """Kill and reap all but one, which stays stopped."""
        if self.is_alone and keep is None:
            with suppress(ProcessLookupError):
                os.kill(-1, SIGKILL)
        deadline = time.monotonic() + END_S
        pause_s = 0.0001
        while True:
            left = [pid for pid in self.freeze() if pid != keep]
            for pid in left:
                _signal(pid, SIGKILL)
            self.reap({keep} if keep else set())
            left = [pid for pid in left if not _is_gone(pid, keep)]
            if not left or time.monotonic() > deadline:
                return
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, 0.01)

    def reap(self, keep: set[int]) -> None:
        """Take in what has ended, but not those whose end another waits for."""
        for pid in self._children():
            if pid not in keep:
                with suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)

    def _children(self) -> list[int]:
        own = str(self._own)
        return [pid for pid in self.others() if (fields := _stat(pid)) and fields[1] == own]

    def orphaned_zombies(self, parent: int) -> bool:
        """Whether the process has children that ended and that it has not waited for."""
        return any((fields := _stat(pid)) and fields[0] == "Z" and fields[1] == str(parent) for pid in self.others())


def is_awake(pid: int) -> bool:
    """Whether a process is there and neither stopped nor a zombie."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in "TtZX"


def _below(pid: int) -> list[int]:
    """The descendants of a process; orphans among them are the server's own children, who asks for them."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{parent}/task"):
                children = list(map(int, _read(f"/proc/{parent}/task/{thread}/children").split()))
                found += children
                waiting += children
    return found


def _below_by_parents(pid: int) -> list[int]:
    """The same, where the kernel lists no children."""
    parents = {int(name): fields[1] for name in os.listdir("/proc") if name.isdigit() and (fields := _stat(int(name)))}
    found: list[int] = []
    waiting = [pid]
    while waiting:
        parent = str(waiting.pop())
        children = [child for child, its_parent in parents.items() if its_parent == parent]
        found += children
        waiting += children
    return found


def _is_gone(pid: int, keep: int | None) -> bool:
    """Whether it is no more, or a zombie that only the kept process can take in."""
    fields = _stat(pid)
    return not fields or (fields[0] == "Z" and fields[1] == str(keep))


def _stat(pid: int) -> list[str]:
    """Fields of a process from its state on; none where it is gone."""
    try:
        return _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    except (OSError, ValueError):
        return []


def _own_part_bytes(pid: int) -> int:
    """Resident memory with what is shared divided among those who share it."""
    fields = _stat(pid)
    for thread in _threads(pid, fields):
        try:
            for line in _read(f"/proc/{thread}/smaps_rollup").splitlines():
                if line.startswith("Pss:"):
                    return int(line.split()[1]) * 1024
        except (OSError, ValueError):
            pass
    return _resident_bytes(pid, fields) if fields else 0


def _resident_bytes(pid: int, fields: list[str]) -> int:
    if fields[0] != "Z":
        return int(fields[21]) * PAGE_BYTES
    return max(int(shown[21]) if (shown := _stat(thread)) else 0 for thread in _threads(pid, fields)) * PAGE_BYTES


def _threads(pid: int, fields: list[str]) -> list[int]:
    """Those that may show what a process holds: itself, or where its first thread has ended, whichever has not."""
    threads: list[int] = []
    if fields and fields[0] == "Z":
        with suppress(OSError):
            threads = list(map(int, os.listdir(f"/proc/{pid}/task")))
    return threads or [pid]


def _read(path: str) -> str:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 65_536).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
