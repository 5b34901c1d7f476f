"""Which installed packages a sandbox needs for what it imports beforehand, and no others: they may hold answers."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rollwright.sandboxes.errors import SandboxSetupError

__all__ = ["PackageEntry", "packages_for"]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True, order=True)
class PackageEntry:
    """A file or folder at the top of where packages are installed."""

    name: str
    source: Path
    version: str


def packages_for(modules: tuple[str, ...]) -> tuple[PackageEntry, ...]:
    """Entries of the distributions that hold the modules, and of those that they require.

    Raises:
        SandboxSetupError: If a module is in no distribution and not in the standard library.
    """
    if not modules:
        return ()
    names = [name for module in modules for name in _holders(module.partition(".")[0])]
    entries: dict[str, PackageEntry] = {}
    for distribution in _with_requirements(names):
        entries |= {entry.name: entry for entry in _entries(distribution)}
    return tuple(sorted(entries.values()))


def _holders(module: str) -> list[str]:
    """Distributions that hold a module; most are named for it, and only for the others are all of them read."""
    if module in sys.stdlib_module_names:
        return []
    try:
        return [metadata.distribution(module).name]
    except metadata.PackageNotFoundError:
        holders = metadata.packages_distributions().get(module)
    if not holders:
        raise SandboxSetupError(
            f"preload names {module!r}, which no installed package holds; install it, or leave it out"
        )
    return holders


def _with_requirements(names: list[str]) -> Iterator[metadata.Distribution]:
    seen: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # A requirement under a condition that this machine does not meet.
        yield distribution
        for line in distribution.requires or ():
            match = NAME.match(line)
            if match and "extra ==" not in line.partition(";")[2]:
                waiting.append(match.group())


def _entries(distribution: metadata.Distribution) -> Iterator[PackageEntry]:
    tops = {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}
    folder = Path(str(distribution.locate_file("")))
    for top in tops:
        source = folder / top
        if source.exists() and not top.endswith(".pth"):
            yield PackageEntry(top, source, distribution.version)
