"""Tries from inside a sandbox what no program may do, and prints what could be done: the pool's check of itself.

Runs as a program like any other, before any other. Arguments: what is to hold, as JSON.
"""

import ctypes
import json
import mmap
import os
import resource
import socket
import sys
from collections.abc import Callable
from contextlib import suppress

__all__ = ["openings"]

CLONE_NEWUSER = 0x10000000
IO_URING_SETUP = 425
PTRACE_ATTACH = 16
PIDFD_OPEN, PIDFD_GETFD = 434, 438
KERNEL_SETTINGS = ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/shmmax", "/proc/sysrq-trigger")
SYSTEM_FOLDERS = (
    "/",
    "/usr",
    "/usr/bin",
    "/dev",
    "/etc",
    "/opt",
    "/root",
    "/proc",
    "/sys",
    os.path.dirname(os.__file__),
)
PRIVATE_FILES = (
    "/etc/shadow",
    "/etc/passwd",
    "/root/.ssh",
    "/root/.netrc",
    "/proc/1/environ",
    "/proc/1/mem",
    "/proc/1/fd",
)
KEPT_SIGNALS = (9, 19, 15)


def openings(expected: dict[str, object]) -> list[str]:
    """What is open that should not be, in words."""
    tries = ON_ALL if expected["isolation"] == "process" else ON_ALL + BEHIND_A_WALL
    return [sentence for attempt in tries for sentence in attempt(expected)]


def _network(expected: dict[str, object]) -> list[str]:
    found: list[str] = []
    for name in ("AF_INET", "AF_INET6", "AF_NETLINK", "AF_PACKET", "AF_VSOCK"):
        with suppress(OSError, AttributeError), socket.socket(socket.AddressFamily[name], socket.SOCK_DGRAM):
            found.append(f"a socket of the family {name} can be had")
    return found


def _environment(expected: dict[str, object]) -> list[str]:
    allowed = expected["variables"]
    assert isinstance(allowed, list)
    extra = sorted(set(os.environ) - set(map(str, allowed)) - {"LC_CTYPE"})  # pyright: ignore[reportUnknownArgumentType] - read JSON
    return [f"environment variables come from outside: {', '.join(extra)}"] if extra else []


def _calls(expected: dict[str, object]) -> list[str]:
    kernel = ctypes.CDLL(None)
    found: list[str] = []
    status = _status()
    if status.get("Seccomp") != "2" or status.get("NoNewPrivs") != "1":
        found.append("no filter of system calls is in force")
    if kernel.syscall(IO_URING_SETUP, 1, 0) != -1 or kernel.ptrace(PTRACE_ATTACH, os.getppid(), 0, 0) != -1:
        found.append("the filter lets io_uring or ptrace through")
    if kernel.unshare(CLONE_NEWUSER) == 0:
        found.append("a program can make a user namespace of its own")
    with suppress(OSError):
        mmap.mmap(-1, mmap.PAGESIZE).close()
        found.append("memory can be shared without a file, which no limit counts")
    handle = kernel.syscall(PIDFD_OPEN, os.getppid(), 0)
    if handle >= 0 and kernel.syscall(PIDFD_GETFD, handle, 3, 0) >= 0:
        found.append("a program can take descriptors of the fork server")
    return found


def _limits(expected: dict[str, object]) -> list[str]:
    names = (
        resource.RLIMIT_AS,
        resource.RLIMIT_CPU,
        resource.RLIMIT_NPROC,
        resource.RLIMIT_FSIZE,
        resource.RLIMIT_NOFILE,
    )
    return [f"the limit of resource {name} is not set" for name in names if resource.getrlimit(name)[1] < 0]


def _identity(expected: dict[str, object]) -> list[str]:
    found: list[str] = []
    status = _status()
    if os.getuid() == 0 or os.getgid() == 0:
        found.append("programs run as root")
    if any(int(status.get(name, "1"), 16) for name in ("CapEff", "CapPrm", "CapInh", "CapBnd", "CapAmb")):
        found.append("programs have capabilities")
    if socket.gethostname() != "sandbox":
        found.append("the host's name is seen")
    return found


def _processes(expected: dict[str, object]) -> list[str]:
    seen = [name for name in os.listdir("/proc") if name.isdigit()]
    found = [] if len(seen) <= 3 and os.getppid() == 1 else [f"{len(seen)} processes are seen"]
    if os.getuid() == 0:
        return found  # Outside a namespace the signals would end the machine's own first process.
    for number in KEPT_SIGNALS:
        with suppress(PermissionError):
            os.kill(1, number)
    return found


def _settings(expected: dict[str, object]) -> list[str]:
    found: list[str] = []
    for path in KERNEL_SETTINGS:
        with suppress(OSError):
            os.close(os.open(path, os.O_WRONLY))
            found.append(f"{path} can be written")
    return found


def _system(expected: dict[str, object]) -> list[str]:
    found: list[str] = []
    for folder in SYSTEM_FOLDERS:
        path = os.path.join(folder, "probe")
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            os.unlink(path)
            found.append(f"{folder} can be written")
    return found


def _secrets(expected: dict[str, object]) -> list[str]:
    hidden = expected["hidden"]
    assert isinstance(hidden, list)
    paths = [path for path in map(str, hidden) if os.path.lexists(path)]  # pyright: ignore[reportUnknownArgumentType] - read JSON
    found = [f"{path} of the machine is seen" for path in paths]
    for path in PRIVATE_FILES:
        with suppress(OSError):
            os.close(os.open(path, os.O_RDONLY))
            found.append(f"{path} can be read")
    return found


def _disks(expected: dict[str, object]) -> list[str]:
    disks, most = expected["disks"], int(str(expected["disk_bytes"]))
    assert isinstance(disks, list)
    with open("/proc/self/mounts") as file:
        mounts = [line.split() for line in file]
    found: list[str] = []
    total = 0
    for _, place, kind, options, *_ in mounts:
        if kind in ("proc", "devpts", "devtmpfs") or "ro" in options.split(","):
            continue
        if place not in disks:
            found.append(f"{place} can be written")
            continue
        state = os.statvfs(place)
        total += state.f_blocks * state.f_frsize
    if total > most:
        found.append(f"{total} bytes can be written, {most} are allowed")
    return found


def _status() -> dict[str, str]:
    with open("/proc/self/status") as file:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in file)}


Attempt = Callable[[dict[str, object]], list[str]]
ON_ALL: tuple[Attempt, ...] = (_network, _environment, _calls, _limits)
BEHIND_A_WALL: tuple[Attempt, ...] = (_identity, _processes, _settings, _system, _secrets, _disks)

if __name__ == "__main__":
    sys.stdout.write(json.dumps({"openings": openings(json.loads(sys.argv[1]))}))
