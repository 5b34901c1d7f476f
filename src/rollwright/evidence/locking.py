"""One writer a run folder: an exclusive flock on its `lock` file, freed by the system however the process ends."""

import fcntl
import os
import socket
import sys
import weakref
from pathlib import Path

from rollwright.evidence.errors import RunLockedError

__all__ = ["FolderLock", "lock_folder", "writer_of"]


class FolderLock:
    """A held lock; `release` or the end of the process frees it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Free the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_folder(folder: Path) -> FolderLock:
    """Take the lock of a run folder.

    Raises:
        RunLockedError: when another process holds it.
    """
    path = folder / "lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _holder(descriptor)
        os.close(descriptor)
        raise RunLockedError(
            f"the run folder {folder} is being written by {holder}; two cannot write one run. "
            "Wait for it to end or stop it; reading it by `rollwright query` works meanwhile."
        ) from None
    # The command and what it is about, without folders and options: nothing of a person's gets into the run.
    command = " ".join(Path(word).name for word in sys.argv[:3] if not word.startswith("-"))
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"process {os.getpid()} on {socket.gethostname()} ({command})\n".encode(), 0)
    lock = FolderLock(descriptor)
    _release_in_forks(lock)
    return lock


def writer_of(folder: Path) -> str | None:
    """Who writes a run folder now, as a person would look for it; None: nobody. Nothing is written."""
    try:
        descriptor = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 500, 0).decode("utf-8", "replace").strip() or "another process"


def _release_in_forks(lock: FolderLock) -> None:
    """A forked worker that outlives a killed run must not keep its folder locked."""
    reference = weakref.ref(lock)

    def release() -> None:
        held = reference()
        if held is not None:
            held.release()

    os.register_at_fork(after_in_child=release)
