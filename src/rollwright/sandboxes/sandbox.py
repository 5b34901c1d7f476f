"""What a sandbox is to those who use it: limits in, typed results out."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from rollwright.sandboxes.errors import SandboxSetupError

__all__ = ["Isolation", "Sandbox", "SandboxLimits", "SandboxProfile", "SandboxResult", "SandboxStatus", "Sandboxes"]

Isolation = Literal["namespaces", "process"]
"""`namespaces`: bubblewrap with its own users, processes, network and files, and a filter of system calls. `process`:
a child process with limits alone, which reads what its user may read: named on purpose, and for trusted code only."""
SandboxStatus = Literal["ok", "failed", "timeout", "cpu_limit", "memory_limit"]
"""`failed`: an exception, an exit code other than 0, or a signal of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxLimits:
    """What the programs of one sandbox may use."""

    wall_s: float = 10.0
    """Of one call; its result is there at most half a second later."""
    cpu_s: float = 10.0
    """Of one call, all its processes together."""
    memory_bytes: int = 512 * 2**20
    """Address space of one process."""
    total_memory_bytes: int = 1024 * 2**20
    """Resident memory of all processes and files of the sandbox together."""
    processes: int = 32
    disk_bytes: int = 64 * 2**20
    """All files that it may write, together, most of them in `/work`; also the most in one file."""
    output_bytes: int = 16_384
    """Kept of each output stream, head and tail with a mark between; the rest is read and dropped."""

    def __post_init__(self) -> None:
        """Refuse limits that let nothing run."""
        least = min(self.wall_s, self.cpu_s, self.memory_bytes, self.total_memory_bytes, self.disk_bytes)
        if not least > 0 or self.processes < 1 or self.output_bytes < 64:
            raise SandboxSetupError(
                f"{self}: times, memory and disk must be above 0, processes at least 1, output_bytes at least 64"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxProfile:
    """All that decides how a program runs; its digest stands in the table of trajectories."""

    isolation: Isolation = "namespaces"
    limits: SandboxLimits = SandboxLimits()
    preload: tuple[str, ...] = ()
    """Modules that are imported once, before programs run, so that an `import` of them costs nothing."""

    def __post_init__(self) -> None:
        """Refuse an isolation that there is not: a wrong word must not stand in the record of a run."""
        if self.isolation not in get_args(Isolation):
            raise SandboxSetupError(
                f"isolation is {self.isolation!r}; it must be 'namespaces', or 'process' for programs that are trusted"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxResult:
    """What became of one call."""

    status: SandboxStatus
    exit_code: int | None
    """None where it was killed; minus the signal's number where it ended by one of its own."""
    stdout: str
    """Valid text, at most `output_bytes` and a mark."""
    stderr: str
    stdout_bytes: int
    """Before it was cut."""
    stderr_bytes: int
    wall_s: float
    cpu_s: float


class Sandbox(Protocol):
    """One for an episode: files and Python names stay from call to call; nothing stays for the next episode.

    Programs start in `/work`, an empty folder of the sandbox's own. Every method raises SandboxError where the sandbox
    itself failed; what a program does wrong is in the result.
    """

    async def python(self, code: str, *, wall_s: float | None = None) -> SandboxResult:
        """Run code as the next cell of the session, which keeps its names; the value of a last expression is printed.

        A cell that is killed takes the session's names with it; files stay.
        """
        ...

    async def program(
        self, code: str, *, stdin: bytes = b"", argv: Sequence[str] = (), wall_s: float | None = None
    ) -> SandboxResult:
        """Run code as a Python program of its own (`__main__`), which sees none of the session's names."""
        ...

    async def shell(self, command: str, *, stdin: bytes = b"", wall_s: float | None = None) -> SandboxResult:
        """Run a command by `sh -c`, in a process of its own."""
        ...

    async def write(self, path: str, data: bytes) -> None:
        """Write a file; its folders are made. Relative paths are below `/work`."""
        ...

    async def read(self, path: str, *, max_bytes: int = 2**20) -> bytes | None:
        """A file's content, at most so much of it; None where there is no such regular file. Follows no link."""
        ...

    async def files(self) -> tuple[str, ...]:
        """Paths of the regular files below `/work`, relative and sorted; at most 10,000."""
        ...


class Sandboxes(Protocol):
    """A pool of sandboxes of one profile; used by several episodes at once and by several event loops in turn."""

    @property
    def profile(self) -> SandboxProfile:
        """Of every sandbox in the pool."""
        ...

    @property
    def profile_id(self) -> str:
        """A digest of the profile, of what runs in it (Python, bubblewrap, the filter), led by its isolation."""
        ...

    @property
    def max_open(self) -> int:
        """How many may be taken at once; who comes later waits."""
        ...

    def take(self) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox; leaving the context ends all that runs in it, and gives its files back to the system."""
        ...

    def close(self) -> None:
        """End all sandboxes, idle ones included. May be called twice."""
        ...
