"""Checkpoints: a folder counts only when its marker says complete, its bytes agree, and its commit is in the run.

    checkpoints/step-000040/…files…  checkpoint.json (step, commit and its digest, every file with its digest)

A save goes to a temporary name and is renamed; what stood under the name before stays until then.
"""

import shutil
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from rollwright.evidence.commits import Commit, CommitHead, commit_digest
from rollwright.evidence.durable import disk_errors, partial_of, remove_partials, sync_files, sync_folders, write_file
from rollwright.evidence.manifest import SCHEMA_VERSION
from rollwright.evidence.shards import file_sha256

__all__ = [
    "Checkpoint",
    "CheckpointChoice",
    "KnownSound",
    "RefusedCheckpoint",
    "choose_checkpoint",
    "clean_checkpoints",
    "list_checkpoints",
    "prune_checkpoints",
    "verify_checkpoint",
    "write_checkpoint",
]

MARKER = "checkpoint.json"
_REPLACED = ".replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marker:
    step: int
    commit: int
    commit_sha256: str
    files: Mapping[str, str]
    """Path below the checkpoint to sha256."""
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A complete checkpoint of a commit in this run; `verify_checkpoint` compares its bytes."""

    name: str
    path: Path
    step: int
    commit: int
    sha256: str
    """Of its marker, which lists the digest of every file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedCheckpoint:
    """A folder that does not count, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointChoice:
    """The newest checkpoint that counts, and what was passed over on the way."""

    chosen: Checkpoint | None
    refused: tuple[RefusedCheckpoint, ...]


class KnownSound:
    """Checkpoints whose bytes were compared, by the looks of their files: size, place on the disk, and last change.

    While they look the same, their bytes are not read again.
    """

    def __init__(self) -> None:
        """None is known."""
        self._looks: dict[str, Mapping[str, tuple[int, int, int]]] = {}

    def note(self, folder: Path) -> None:
        """The bytes of a checkpoint were compared just now."""
        self._looks[folder.name] = _looks_of(folder)

    def has(self, folder: Path) -> bool:
        """True where a checkpoint looks as it did then."""
        return self._looks.get(folder.name) == _looks_of(folder)

    def forget(self, folder: Path) -> None:
        """A checkpoint is gone."""
        self._looks.pop(folder.name, None)


_ADAPTER = TypeAdapter(_Marker)


def list_checkpoints(root: Path, commits: Sequence[CommitHead]) -> tuple[Checkpoint | RefusedCheckpoint, ...]:
    """Every folder below `checkpoints`, by name, without reading the large files."""
    live = {c.number: c for c in commits}
    folders = sorted(p for p in (root / "checkpoints").glob("*") if p.is_dir() and not p.name.startswith("."))
    return tuple(_examine(root, folder, live) for folder in folders)


def verify_checkpoint(checkpoint: Checkpoint) -> RefusedCheckpoint | None:
    """Compare every file with its digest; None when all agree."""
    marker = _ADAPTER.validate_json((checkpoint.path / MARKER).read_bytes())
    for name, sha256 in marker.files.items():
        if file_sha256(checkpoint.path / name) != sha256:
            return RefusedCheckpoint(name=checkpoint.name, reason=f"content check failed: {name} was altered")
    return None


def choose_checkpoint(root: Path, commits: Sequence[CommitHead]) -> CheckpointChoice:
    """The newest checkpoint whose marker, commit and bytes agree; a folder's name proves nothing."""
    listed = list_checkpoints(root, commits)
    refused = [c for c in listed if isinstance(c, RefusedCheckpoint)]
    complete = [c for c in listed if isinstance(c, Checkpoint)]
    for checkpoint in sorted(complete, key=lambda c: c.commit, reverse=True):
        fault = verify_checkpoint(checkpoint)
        if fault is None:
            return CheckpointChoice(chosen=checkpoint, refused=tuple(refused))
        refused.append(fault)
    return CheckpointChoice(chosen=None, refused=tuple(refused))


@contextmanager
def write_checkpoint(root: Path, commit: Commit, known: KnownSound) -> Generator[Path]:
    """A folder to fill; on leaving, it is synced, marked, given its name and noted; on an error it is removed.

    Raises:
        DiskFullError: when there is no room; earlier checkpoints stay.
    """
    path = root / "checkpoints" / f"step-{commit.step:06d}"
    temporary = partial_of(path)
    if temporary.exists():
        shutil.rmtree(temporary)
    try:
        with disk_errors(f"checkpoint {path.name}", root, 0):
            temporary.mkdir(parents=True)
            yield temporary
            _seal(root, temporary, commit)
            _give_name(temporary, path)
            known.note(path)
    except BaseException:
        if temporary.exists():
            shutil.rmtree(temporary)
        raise


def prune_checkpoints(
    root: Path, commits: Sequence[CommitHead], known: KnownSound, *, keep_last: int, keep: Callable[[Checkpoint], bool]
) -> tuple[str, ...]:
    """Remove old checkpoints, only where `keep_last` newer ones are complete down to their bytes.

    Args:
        root: the run folder.
        commits: of the run.
        known: which of them need no reading; those that are read now are noted.
        keep_last: how many of the newest stay, at least 1.
        keep: True for one to keep besides (the best, the one resumed from).

    Returns:
        The names of those removed.
    """
    complete = [c for c in list_checkpoints(root, commits) if isinstance(c, Checkpoint)]
    newest_first = sorted(complete, key=lambda c: c.commit, reverse=True)
    sound = 0
    removed: list[str] = []
    for checkpoint in newest_first:
        if sound < max(1, keep_last):
            sound += _is_sound(checkpoint, known)
        elif not keep(checkpoint):
            # Its marker goes first, so that a kill leaves an incomplete folder and never a wrong one.
            (checkpoint.path / MARKER).unlink()
            shutil.rmtree(checkpoint.path)
            known.forget(checkpoint.path)
            removed.append(checkpoint.name)
    return tuple(removed)


def clean_checkpoints(root: Path) -> None:
    """Remove what a killed save left, and give back a folder that was being replaced."""
    folder = root / "checkpoints"
    remove_partials([folder])
    for replaced in folder.glob(f".*{_REPLACED}"):
        original = folder / replaced.name[1 : -len(_REPLACED)]
        if original.exists():
            shutil.rmtree(replaced)
        else:
            replaced.rename(original)


def _is_sound(checkpoint: Checkpoint, known: KnownSound) -> bool:
    if known.has(checkpoint.path):
        return True
    is_sound = verify_checkpoint(checkpoint) is None
    if is_sound:
        known.note(checkpoint.path)
    return is_sound


def _looks_of(folder: Path) -> Mapping[str, tuple[int, int, int]]:
    found = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (of.st_size, of.st_ino, of.st_ctime_ns) for path, of in found}


def _examine(root: Path, folder: Path, live: Mapping[int, CommitHead]) -> Checkpoint | RefusedCheckpoint:
    def refuse(reason: str) -> RefusedCheckpoint:
        return RefusedCheckpoint(name=folder.name, reason=reason)

    path = folder / MARKER
    if not path.is_file():
        return refuse(f"incomplete: it has no {MARKER}, so the save did not end")
    try:
        marker = _ADAPTER.validate_json(path.read_bytes())
    except ValidationError as error:
        return refuse(f"content check failed: {MARKER}: {error.errors()[0]['msg']}")
    if marker.schema_version != SCHEMA_VERSION:
        return refuse(f"it is of schema {marker.schema_version}, and this rollwright reads schema {SCHEMA_VERSION}")
    missing = [name for name in marker.files if not (folder / name).is_file()]
    if missing:
        return refuse(f"incomplete: {missing[0]} is missing")
    commit = live.get(marker.commit)
    if commit is None or commit_digest(root, commit) != marker.commit_sha256:
        return refuse(f"its commit {marker.commit:06d} is no part of the run: a resume went on from before it")
    return Checkpoint(name=folder.name, path=folder, step=marker.step, commit=marker.commit, sha256=file_sha256(path))


def _seal(root: Path, folder: Path, commit: Commit) -> None:
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    folders = [folder, *(p for p in folder.rglob("*") if p.is_dir())]
    sync_files(files)
    marker = _Marker(
        step=commit.step,
        commit=commit.number,
        commit_sha256=commit_digest(root, commit),
        files={str(p.relative_to(folder)): file_sha256(p) for p in files},
    )
    write_file(folder / MARKER, _ADAPTER.dump_json(marker, indent=1) + b"\n")
    sync_folders(folders)


def _give_name(temporary: Path, path: Path) -> None:
    replaced = path.with_name(f".{path.name}{_REPLACED}")
    if replaced.exists():
        shutil.rmtree(replaced)
    if path.exists():
        path.rename(replaced)
    temporary.rename(path)
    sync_folders([path.parent])
    if replaced.exists():
        shutil.rmtree(replaced)
