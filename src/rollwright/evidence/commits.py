"""Commits: what a run consists of. A shard that no commit lists never happened.

    shards: temporary name, synced, renamed ─► folders synced ─► commit file: temporary name, synced, renamed ─► synced

A kill before the last rename leaves leftovers that `clean` removes; after it, a whole commit. Each commit carries the
digest of the one before it, so that an old one cannot be edited unseen.
"""

import hashlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from rollwright.evidence.durable import disk_errors, remove_partials, sync_folders, write_file, write_files
from rollwright.evidence.errors import EvidenceError, SchemaVersionError
from rollwright.evidence.manifest import SCHEMA_VERSION
from rollwright.evidence.shards import Shard, file_sha256, parquet_bytes
from rollwright.record.tables import STORED_TABLES, Table, table_named

__all__ = [
    "Commit",
    "CommitDraft",
    "CommitHead",
    "CommitKind",
    "WrittenCommit",
    "abandon",
    "broken_links",
    "clean",
    "commit_digest",
    "commit_path",
    "has_commits",
    "head_of",
    "newest_digest",
    "read_commits",
    "write_commit",
]

CommitKind = Literal["step", "evaluation", "score", "merge"]
_NAME = re.compile(r"(\d{6,})-(step|evaluation|score|merge)\.json")
_ABANDONED_NAME = re.compile(r"(\d{6,})-(step|evaluation|score|merge)(-\d+)?\.json")
_SHARD_NAME = re.compile(r"(\d{6,})(-\d+)?\.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One commit file."""

    number: int
    """From 1, in order."""
    kind: CommitKind
    step: int
    """Of its rows; for what a later command adds, the step whose weights it looked at."""
    committed_at: datetime
    manifest_sha256: str
    """Of the manifest of its segment."""
    last_seq: int
    """Of the ledger, this commit included; -1 before any."""
    previous_sha256: str | None
    """Of the file of the commit before it, which may have been abandoned since; None: it is the first."""
    shards: tuple[Shard, ...]
    schema_version: int = SCHEMA_VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitHead:
    """What a writer keeps of each commit of its run: no shards, which its file names."""

    number: int
    kind: CommitKind
    step: int
    last_seq: int
    manifest_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CommitDraft:
    """A commit about to be written."""

    number: int
    kind: CommitKind
    step: int
    committed_at: datetime
    manifest_sha256: str
    last_seq: int
    previous_sha256: str | None
    """Of the file of the newest commit in force."""
    tables: Mapping[str, pa.Table]
    """By table name; empty ones get no shard."""
    blobs: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCommit:
    """A commit and what the next one names it by."""

    commit: Commit
    sha256: str
    """Of its file."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ShardFile:
    table: Table
    path: Path
    num_rows: int
    content: bytes

    def shard(self, root: Path) -> Shard:
        return Shard(
            table=self.table.name,
            path=str(self.path.relative_to(root)),
            sha256=hashlib.sha256(self.content).hexdigest(),
            num_bytes=len(self.content),
            num_rows=self.num_rows,
        )


_ADAPTER = TypeAdapter(Commit)


def head_of(commit: Commit) -> CommitHead:
    """A commit without its shards."""
    return CommitHead(
        number=commit.number,
        kind=commit.kind,
        step=commit.step,
        last_seq=commit.last_seq,
        manifest_sha256=commit.manifest_sha256,
    )


def commit_path(root: Path, commit: Commit | CommitHead) -> Path:
    """Where a commit's file stands."""
    return root / "commits" / f"{commit.number:06d}-{commit.kind}.json"


def commit_digest(root: Path, commit: Commit | CommitHead) -> str:
    """sha256 of a commit's file; a checkpoint names its commit by it."""
    return file_sha256(commit_path(root, commit))


def has_commits(root: Path) -> bool:
    """True once anything was committed."""
    return any(_NAME.fullmatch(path.name) for path in (root / "commits").glob("*.json"))


def read_commits(root: Path) -> tuple[Commit, ...]:
    """All commits in order; the abandoned ones are not among them.

    Raises:
        EvidenceError: when a commit file cannot be read, or one is missing.
        SchemaVersionError: when it is of another schema.
    """
    found: list[Commit] = []
    for path in sorted((root / "commits").glob("*.json")):
        if _NAME.fullmatch(path.name) is None:
            continue
        commit = _read(path)
        if path != commit_path(root, commit):
            raise EvidenceError(
                f"{path} holds commit {commit.number} of kind {commit.kind}; commits are never renamed."
            )
        found.append(commit)
    numbers = [c.number for c in found]
    if len(set(numbers)) != len(numbers):
        twice = next(n for n in numbers if numbers.count(n) > 1)
        raise EvidenceError(
            f"{root / 'commits'} has two commits of number {twice}; keep the one that belongs to the run."
        )
    _assert_complete(root, numbers)
    return tuple(sorted(found, key=lambda c: c.number))


def write_commit(root: Path, draft: CommitDraft) -> WrittenCommit:
    """Write the blobs and shards of a commit, then the commit.

    Raises:
        DiskFullError: when there is no room; then nothing of it stays, and it can be tried again.
    """
    files = [
        _ShardFile(
            table=table,
            path=_free_path(root, table, draft.number),
            num_rows=rows.num_rows,
            content=parquet_bytes(table, rows),
        )
        for table, rows in ((table_named(name), rows) for name, rows in draft.tables.items())
        if rows.num_rows
    ]
    num_bytes = sum(len(f.content) for f in files) + sum(map(len, draft.blobs.values()))
    try:
        with disk_errors(f"commit {draft.number}", root, num_bytes):
            _write_shards(root, {file.path: file.content for file in files}, draft.blobs)
            commit = Commit(
                number=draft.number,
                kind=draft.kind,
                step=draft.step,
                committed_at=draft.committed_at,
                manifest_sha256=draft.manifest_sha256,
                last_seq=draft.last_seq,
                previous_sha256=draft.previous_sha256,
                shards=tuple(file.shard(root) for file in files),
            )
            content = _ADAPTER.dump_json(commit, indent=1) + b"\n"
            write_file(commit_path(root, commit), content)
            sync_folders([root / "commits"])
    except BaseException:
        _unwrite(root, draft, files)
        raise
    return WrittenCommit(commit=commit, sha256=hashlib.sha256(content).hexdigest())


def newest_digest(root: Path) -> str | None:
    """sha256 of the file of the newest commit in force; None before any."""
    named = [path for path in (root / "commits").glob("*.json") if _NAME.fullmatch(path.name)]
    return file_sha256(max(named, key=lambda path: int(path.name.partition("-")[0]))) if named else None


def broken_links(root: Path, commits: Sequence[Commit]) -> tuple[Commit, ...]:
    """The commits whose file before them is not the one that they were written after: it was edited, or is missing."""
    return tuple(c for c in commits if c.previous_sha256 not in _digests_of(root, c.number - 1))


def abandon(root: Path, commits: tuple[Commit, ...]) -> None:
    """Move commits to `commits/abandoned`, the last first, so that a kill in between leaves a run that stands."""
    aside = root / "commits" / "abandoned"
    aside.mkdir(exist_ok=True)
    for commit in sorted(commits, key=lambda c: c.number, reverse=True):
        source = commit_path(root, commit)
        target, tries = aside / source.name, 1
        while target.exists():
            tries += 1
            target = aside / f"{source.stem}-{tries}.json"
        source.rename(target)
    sync_folders([aside, root / "commits"])


def clean(root: Path) -> None:
    """Remove what a killed writer left: temporary names, and shards of a commit that never came to be.

    Those are numbered above the last commit, and no commit, abandoned or not, lists them.

    Raises:
        EvidenceError: when a commit file cannot be read, or one is missing; then nothing is removed.
    """
    last = max((c.number for c in read_commits(root)), default=0)
    folders = [root, root / "commits", root / "blobs", *(root / t.name for t in STORED_TABLES)]
    kept = {root / s.path for path in (root / "commits").rglob("*.json") for s in _read(path).shards}
    remove_partials(folders)
    for table in STORED_TABLES:
        for path in (root / table.name).glob("*.parquet"):
            name = _SHARD_NAME.fullmatch(path.name)
            if name is not None and int(name[1]) > last and path not in kept:
                path.unlink()


def _digests_of(root: Path, number: int) -> frozenset[str | None]:
    """Of the files that have that number, in force or abandoned."""
    folder = root / "commits"
    paths = [*folder.glob(f"{number:06d}-*.json"), *(folder / "abandoned").glob(f"{number:06d}-*.json")]
    return frozenset(map(file_sha256, paths)) or frozenset({None})


def _assert_complete(root: Path, numbers: Sequence[int]) -> None:
    """Every number is taken once, and an abandoned commit keeps its file."""
    # Looked at after the commits: one that is moved meanwhile is seen here.
    names = (_ABANDONED_NAME.fullmatch(p.name) for p in (root / "commits" / "abandoned").glob("*.json"))
    known = {*numbers, *(int(name[1]) for name in names if name is not None)}
    missing = sorted(set(range(1, max(known, default=0))) - known)
    if missing:
        raise EvidenceError(
            f"{root / 'commits'}: commit {missing[0]} is missing; restore it from a copy of the run. Its rows are "
            "still in the folder, and nothing was removed."
        )


def _read(path: Path) -> Commit:
    try:
        content = path.read_bytes()
        commit = _ADAPTER.validate_json(content)
    except ValidationError as error:
        raise EvidenceError(
            f"{path} is not a commit: {error.errors()[0]['msg']}. Restore it from a copy of the run, or move it and "
            "the later ones to commits/abandoned and resume."
        ) from error
    if commit.schema_version != SCHEMA_VERSION:
        raise SchemaVersionError(
            f"{path} is of schema {commit.schema_version}, and this rollwright reads schema {SCHEMA_VERSION}. Use the "
            "version that wrote the run (manifest.json names it)."
        )
    return commit


def _free_path(root: Path, table: Table, number: int) -> Path:
    # An abandoned commit of this number keeps its shards, under the plain name.
    folder, name, tries = root / table.name, f"{number:06d}.parquet", 1
    # Asked of every table in every step: a `Path` costs ten times as much.
    while os.path.exists(f"{folder}/{name}"):
        tries += 1
        name = f"{number:06d}-{tries}.parquet"
    return folder / name


def _write_shards(root: Path, shards: Mapping[Path, bytes], blobs: Mapping[str, bytes]) -> None:
    new = {root / "blobs" / sha256: blobs[sha256] for sha256 in sorted(blobs)}
    files = {**shards, **{path: content for path, content in new.items() if not path.exists()}}
    for folder in {path.parent for path in files}:
        if not os.path.isdir(folder):
            folder.mkdir(exist_ok=True)
    write_files(files)


def _unwrite(root: Path, draft: CommitDraft, files: Sequence[_ShardFile]) -> None:
    if not (root / "commits" / f"{draft.number:06d}-{draft.kind}.json").exists():
        for file in files:
            file.path.unlink(missing_ok=True)
