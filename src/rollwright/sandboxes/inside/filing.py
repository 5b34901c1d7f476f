"""Files of a sandbox, written and read by its fork server while no program runs. No link is followed."""

import os
import stat
from _collections_abc import Callable

from rollwright.sandboxes.inside.plain import suppress

__all__ = ["FilingError", "listed", "read_file", "write_file"]

WORK = "/work"
"""Where programs start, by the name that callers use; elsewhere only where the sandbox has a root of its own."""
MAX_LISTED = 10_000
MAX_VISITED = 100_000
MAX_DEPTH = 64
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class FilingError(OSError):
    """What the programs of this sandbox, or the path that was given, do not allow."""


def write_file(work: str, path: str, data: bytes) -> None:
    """Write a file whole; folders on the way are made."""
    root, *folders, name = _parts(work, path)
    folder = _folder(root, folders, make_folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = os.open(name, flags, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise FilingError(f"{path} is there and is no regular file")
        os.ftruncate(file, 0)
        view = memoryview(data)
        while view:
            view = view[os.write(file, view) :]
    finally:
        os.close(file)


def read_file(work: str, path: str, most: int) -> bytes | None:
    """At most so many bytes of a regular file; None where there is none."""
    try:
        root, *folders, name = _parts(work, path)
        folder = _folder(root, folders, leave_folder)
        try:
            file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        finally:
            os.close(folder)
        try:
            return _read(file, most) if stat.S_ISREG(os.fstat(file).st_mode) else None
        finally:
            os.close(file)
    except OSError:
        return None


def make_folder(name: str, above: int) -> None:
    """Make a folder where there is none."""
    with suppress(FileExistsError):
        os.mkdir(name, 0o755, dir_fd=above)


def leave_folder(name: str, above: int) -> None:
    """Take what is there."""


def listed(work: str) -> list[str]:
    """Paths of regular files below the work folder, sorted; names that are not valid text are shown escaped."""
    found: list[str] = []
    visited = 0
    waiting = [("", 0)]
    while waiting:
        below, depth = waiting.pop()
        try:
            entries = os.scandir(os.path.join(work, below))
        except OSError:
            continue
        with entries:
            for entry in entries:
                visited += 1
                if visited > MAX_VISITED or len(found) >= MAX_LISTED:
                    return sorted(map(_shown, found))
                path = f"{below}/{entry.name}" if below else entry.name
                if entry.is_file(follow_symlinks=False):
                    found.append(path)
                elif entry.is_dir(follow_symlinks=False) and depth < MAX_DEPTH and len(path) < 3_000:
                    waiting.append((path, depth + 1))
    return sorted(map(_shown, found))


def _parts(work: str, path: str) -> list[str]:
    """A folder that is there, the folders below it, and the name."""
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise FilingError(f"{path!r} has characters that no file's name can have") from error
    rest = path.removeprefix(f"{WORK}/")
    is_absolute = rest.startswith("/")
    parts = [part for part in rest.split("/") if part not in ("", ".")]
    if not parts or ".." in parts or "\0" in path or (is_absolute and work != WORK):
        raise FilingError(f"{path!r} is no path of a file below {WORK}; '..' is not taken")
    return ["/" if is_absolute else work, *parts]


def _folder(root: str, folders: list[str], prepare: Callable[[str, int], None]) -> int:
    """The folder that the parts lead to, no link among them."""
    above = os.open(root, FOLDER)
    for part in folders:
        try:
            prepare(part, above)
            below = os.open(part, FOLDER, dir_fd=above)
        finally:
            os.close(above)
        above = below
    return above


def _read(file: int, most: int) -> bytes:
    pieces: list[bytes] = []
    while most > 0:
        piece = os.read(file, min(most, 2**20))
        if not piece:
            break
        pieces.append(piece)
        most -= len(piece)
    return b"".join(pieces)


def _shown(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
