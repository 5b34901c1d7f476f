"""Files that are there whole or not at all, whatever kills the process or fills the disk.

A file is written under a temporary name, synced and renamed; the name is durable once its folder is synced. Of several,
all are written, then all synced, then all renamed, so that the disk has few moments to commit. One thread does it: a
step is written behind the loop's back, where threads cost more of the processor than they save of the disk's time.
What a checkpoint holds is large, and is synced by several.
"""

import errno
import os
import shutil
from collections.abc import Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rollwright.evidence.errors import DiskFullError

__all__ = [
    "PARTIAL",
    "disk_errors",
    "partial_of",
    "remove_partials",
    "sync_files",
    "sync_folders",
    "sync_path",
    "write_file",
    "write_files",
]

PARTIAL = ".partial"
"""Ending of temporary names; what carries it never happened."""

_NUM_THREADS = 4
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def partial_of(path: Path) -> Path:
    """The temporary name of a file or folder."""
    return path.with_name(f".{path.name}{PARTIAL}")


def write_file(path: Path, content: bytes) -> None:
    """Write and sync `content`, then give it its name; `sync_folders` makes the name durable."""
    temporary = partial_of(path)
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files as `write_file` does, each stage for all of them, and make their names durable.

    Raises:
        OSError: of the first that failed; then none of them stays.
    """
    temporary = {path: partial_of(path) for path in files}
    try:
        with ExitStack() as stack:
            opened: list[int] = []
            for path, name in temporary.items():
                file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
                stack.callback(os.close, file)
                _write_whole(file, files[path])
                opened.append(file)
            for file in opened:
                os.fsync(file)
        for path, name in temporary.items():
            os.rename(name, path)
        for folder in dict.fromkeys(path.parent for path in files):
            sync_path(folder)
    except BaseException:
        for path, name in temporary.items():
            name.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
        raise


def sync_folders(folders: Iterable[Path]) -> None:
    """Make the names in these folders durable."""
    _sync_all(tuple(dict.fromkeys(folders)))


def sync_files(paths: Iterable[Path]) -> None:
    """Make the content of files that others wrote durable."""
    _sync_all(tuple(paths))


def sync_path(path: Path) -> None:
    """Make the content of one file, or the names in one folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_partials(folders: Iterable[Path]) -> None:
    """Remove what a killed process left under temporary names."""
    for folder in folders:
        for leftover in folder.glob(f".*{PARTIAL}"):
            if leftover.is_dir() and not leftover.is_symlink():
                shutil.rmtree(leftover)
            else:
                leftover.unlink()


@contextmanager
def disk_errors(what: str, folder: Path, num_bytes: int) -> Generator[None]:
    """Turn a full disk into a sentence.

    Args:
        what: what is being written, for the sentence.
        folder: where.
        num_bytes: how much is needed; 0 where unknown.

    Raises:
        DiskFullError: when the system says that there is no room.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        free = shutil.disk_usage(folder).free
        needed = f"; it needs {num_bytes:,} bytes and {free:,} are free" if num_bytes else f"; {free:,} bytes are free"
        raise DiskFullError(
            f"cannot write {what} in {folder}: {error.strerror}{needed}. Everything committed before is safe: make "
            "room (or raise the quota), then `rollwright resume` goes on from the last checkpoint."
        ) from error


def _write_whole(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]


def _sync_all(paths: Sequence[Path]) -> None:
    if len(paths) == 1:
        sync_path(paths[0])
        return
    with ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="syncs") as pool:
        list(pool.map(sync_path, paths))
