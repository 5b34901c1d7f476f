"""A run folder: the only reader and writer of its files.

    RUN/ manifest.json manifests/ recipe.toml lock events.jsonl metrics.jsonl tokenizer/ blobs/ checkpoints/ commits/
    and a folder for each table

`create` and `open(path, "write")` hold the lock; a reader needs none and sees committed rows only.
"""

import shlex
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from rollwright.evidence.checkpoints import (
    Checkpoint,
    CheckpointChoice,
    KnownSound,
    RefusedCheckpoint,
    choose_checkpoint,
    clean_checkpoints,
    list_checkpoints,
    prune_checkpoints,
    write_checkpoint,
)
from rollwright.evidence.commits import (
    Commit,
    CommitDraft,
    CommitHead,
    abandon,
    broken_links,
    clean,
    head_of,
    newest_digest,
    read_commits,
    write_commit,
)
from rollwright.evidence.drafting import CommitRows, draft_tables
from rollwright.evidence.durable import disk_errors, remove_partials, sync_folders, write_file
from rollwright.evidence.errors import EvidenceError, FolderExistsError, ShardError
from rollwright.evidence.events import Event, append_event, read_events, seal_events
from rollwright.evidence.known_tasks import KnownTasks, read_known_tasks
from rollwright.evidence.locking import FolderLock, lock_folder
from rollwright.evidence.manifest import Manifest, Retention, manifest_to_json
from rollwright.evidence.metric_log import MetricLine, append_line, keep_lines, read_lines
from rollwright.evidence.segments import abandon_segments, read_manifests, write_segment
from rollwright.evidence.shards import assert_whole, file_sha256
from rollwright.record import EligibleRow
from rollwright.record.tables import STORED_TABLES, TASKS

__all__ = ["GROUPS_PER_COMMIT", "Mode", "RunFolder"]

Mode = Literal["read", "write"]

GROUPS_PER_COMMIT = 1_000_000
"""A later command counts its groups from this many times its commit's number, so `resume` finds the run's own free."""

_FOLDERS = ("blobs", "checkpoints", "commits", "manifests", "tokenizer", *(t.name for t in STORED_TABLES))


class RunFolder:
    """One run on disk. Use it as a context manager, so that the lock is freed."""

    def __init__(self, path: Path, lock: FolderLock | None) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._lock = lock
        self._manifests = read_manifests(path)
        self._commits = read_commits(path)
        self._heads = list(map(head_of, self._commits))
        self._tasks: KnownTasks | None = None
        self._newest: tuple[int, str] | None = None
        self._sound = KnownSound()

    @classmethod
    def create(cls, path: Path, manifest: Manifest, recipe_toml: str, *, tokenizer: Path | None = None) -> Self:
        """Make the folder, freeze its manifest, and hold it for writing.

        Args:
            path: a folder that does not exist or is empty.
            manifest: frozen here; nothing changes it.
            recipe_toml: the configuration as resolved, enough to start again.
            tokenizer: a folder whose files are copied to `tokenizer/`.

        Raises:
            FolderExistsError: when something stands at `path`.
        """
        _assert_free(path)
        with disk_errors("the run folder", path.parent if path.parent.exists() else Path.cwd(), 0):
            path.mkdir(parents=True, exist_ok=True)
            lock = lock_folder(path)
            try:
                _assert_free(path)
                _lay_out(path, manifest, recipe_toml, tokenizer)
            except BaseException:
                lock.release()
                raise
        return cls(path, lock)

    @classmethod
    def open(cls, path: Path, mode: Mode = "read") -> Self:
        """Open a run; for writing it is locked and cleaned of what a killed writer left.

        Raises:
            NotARunError: when there is none.
            SchemaVersionError: when it is of another schema.
            EvidenceError: when a commit is missing or cannot be read, or one or a manifest was edited.
            ShardError: when a committed file is missing or of another size; contents are compared on reading.
            RunLockedError: when another process writes it.
        """
        if mode == "read":
            return cls(path, None)
        read_manifests(path)  # what is no run gets no lock
        lock = lock_folder(path)
        try:
            folder = cls(path, lock)
            folder._assert_unedited()
            folder._assert_shards_whole()
            clean(path)
            clean_checkpoints(path)
            remove_partials([path / "manifests"])
            seal_events(path / "events.jsonl")
        except BaseException:
            lock.release()
            raise
        return folder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def manifest(self) -> Manifest:
        """Of the newest segment: what the next commit is made under."""
        return self._manifests[-1].manifest

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """One a segment, in order: the first is what the run began with."""
        return tuple(one.manifest for one in self._manifests)

    @property
    def eligible(self) -> tuple[EligibleRow, ...]:
        """What any segment trains, each once."""
        return tuple(dict.fromkeys(row for manifest in self.manifests for row in manifest.eligible))

    @property
    def retention(self) -> Retention:
        """What receipts keep in all segments: the least that one of them kept."""
        kept = {manifest.receipts for manifest in self.manifests}
        return next(one for one in ("sums", "runs", "full") if one in kept)

    def manifest_of(self, commit: Commit) -> Manifest:
        """The manifest that a commit was made under.

        Raises:
            EvidenceError: when none of the run's has the digest that the commit carries.
        """
        for one in self._manifests:
            if one.sha256 == commit.manifest_sha256:
                return one.manifest
        raise EvidenceError(
            f"{self.path} has no manifest with the digest that commit {commit.number} carries; "
            f"{self._manifests[-1].path} or one before it was edited after the run began. Restore it from a copy."
        )

    @property
    def commits(self) -> tuple[Commit, ...]:
        """In order; read anew by `refresh`. Those that this process wrote are read when they are asked for."""
        if len(self._commits) != len(self._heads):
            self._commits = read_commits(self.path)[: len(self._heads)]
        return self._commits

    @property
    def heads(self) -> Sequence[CommitHead]:
        """The commits in order, without their shards."""
        return self._heads

    @property
    def tokenizer(self) -> Path:
        """The tokenizer's folder."""
        return self.path / "tokenizer"

    @property
    def recipe_toml(self) -> str:
        """The configuration as resolved."""
        return (self.path / "recipe.toml").read_text(encoding="utf-8")

    @property
    def next_commit(self) -> int:
        """The number that the next commit gets."""
        return self._heads[-1].number + 1 if self._heads else 1

    @property
    def first_group_id(self) -> int:
        """Where a later command (`eval`, `score`) counts its groups from: 10⁶ × its commit's number."""
        return GROUPS_PER_COMMIT * self.next_commit

    def refresh(self) -> None:
        """See what another process has committed since."""
        # Commits first: each names a manifest that stood before it.
        self._commits = read_commits(self.path)
        self._heads = list(map(head_of, self._commits))
        self._manifests = read_manifests(self.path)

    def commit(self, rows: CommitRows, *, at: datetime) -> Commit:
        """Make rows part of the run, whole or not at all.

        Args:
            rows: of one step, or of one later command; `seq` of ledger rows is given here.
            at: now.

        Returns:
            The commit; after a DiskFullError nothing of it stays and it can be tried again.
        """
        self._assert_writing()
        # A later command keeps its tasks itself: a resume may abandon the step that holds them.
        known = self._own_tasks() if rows.kind == "step" else KnownTasks()
        tables, blobs = draft_tables(rows, self.manifest.receipts, self._last_seq + 1, known)
        draft = CommitDraft(
            number=self.next_commit,
            kind=rows.kind,
            step=rows.step,
            committed_at=at,
            manifest_sha256=self._manifests[-1].sha256,
            last_seq=self._last_seq + len(rows.ledger),
            previous_sha256=self._newest_digest(),
            tables=tables,
            blobs=blobs,
        )
        written = write_commit(self.path, draft)
        commit = written.commit
        # A run has any number of commits: of those written here, what later calls need is kept, and no shard's record.
        self._heads.append(head_of(commit))
        self._commits = ()
        self._newest = (commit.number, written.sha256)
        if rows.kind == "step":
            known.add(map(str, tables[TASKS.name].column("task_id").to_pylist()))
        return commit

    def commits_kept(self, commit: int) -> tuple[Commit, ...]:
        """What `abandon_after` would leave: the commits up to that number, and what was said later of their steps."""
        if commit and commit not in {c.number for c in self._heads}:
            known = ", ".join(str(c.number) for c in self._heads) or "none"
            raise EvidenceError(f"{self.path} has no commit {commit}; it has {known}.")
        last_step = max((c.step for c in self._heads if c.number <= commit), default=-1)
        return tuple(c for c in self.commits if c.number <= commit or (c.kind != "step" and c.step <= last_step))

    def abandon_after(self, commit: int) -> tuple[Commit, ...]:
        """Undo the steps after a commit: what they held never happened.

        Args:
            commit: a number; 0 abandons all.

        Returns:
            The commits moved to `commits/abandoned`: later steps, and what later commands said of them. What a command
            said of a step that stays (an evaluation of the checkpoint that is resumed) stays too.
        """
        self._assert_writing()
        kept = {c.number for c in self.commits_kept(commit)}
        gone = tuple(c for c in self.commits if c.number not in kept)
        if gone:
            abandon(self.path, gone)
            self.refresh()
            self._tasks = None
        return gone

    def open_segment(self, manifest: Manifest) -> None:
        """Freeze another manifest: commits from now on are made under it, and those before keep theirs.

        Args:
            manifest: with its `segment`, which names the digest of the newest one.

        Raises:
            EvidenceError: when it does not follow the newest one.
        """
        self._assert_writing()
        write_segment(self.path, self._manifests, manifest)
        self._manifests = read_manifests(self.path)

    @property
    def newest_manifest_sha256(self) -> str:
        """Of the file of the newest manifest."""
        return self._manifests[-1].sha256

    def abandon_segments_after(self, number: int) -> None:
        """Undo segments of which no commit is left: they never happened.

        Args:
            number: of the segment that becomes the newest again.

        Raises:
            EvidenceError: when a commit in force was made under a later one.
        """
        self._assert_writing()
        gone = self._manifests[number:]
        names = {one.sha256 for one in gone}
        held = next((c for c in self._heads if c.manifest_sha256 in names), None)
        if held is not None:
            raise EvidenceError(
                f"commit {held.number} was made under a segment after {number}; a segment with commits stays."
            )
        abandon_segments(self.path, gone)
        self._manifests = read_manifests(self.path)

    def checkpoints(self) -> tuple[Checkpoint | RefusedCheckpoint, ...]:
        """All, by name; those that do not count say why."""
        return list_checkpoints(self.path, self._heads)

    def newest_checkpoint(self) -> CheckpointChoice:
        """The newest that is complete, belongs to a commit of this run, and whose bytes agree with their digests."""
        return choose_checkpoint(self.path, self._heads)

    @contextmanager
    def writing_checkpoint(self, commit: Commit) -> Generator[Path]:
        """A folder to fill with the state after `commit`; it counts once the block has ended without an error."""
        self._assert_writing()
        with write_checkpoint(self.path, commit, self._sound) as folder:
            yield folder

    def prune_checkpoints(self, *, keep_last: int, keep: Callable[[Checkpoint], bool]) -> tuple[str, ...]:
        """Remove old checkpoints; the newest `keep_last` sound ones stay, and those that `keep` names."""
        self._assert_writing()
        return prune_checkpoints(self.path, self._heads, self._sound, keep_last=keep_last, keep=keep)

    def record_event(self, event: Event) -> None:
        """Append to `events.jsonl`."""
        self._assert_writing()
        with disk_errors("an event", self.path, 0):
            append_event(self.path / "events.jsonl", event)

    def log_metrics(self, line: MetricLine) -> None:
        """Append to `metrics.jsonl`."""
        self._assert_writing()
        append_line(self.path / "metrics.jsonl", line)

    def metric_lines(self) -> tuple[MetricLine, ...]:
        """What `metrics.jsonl` holds, in order."""
        return read_lines(self.path / "metrics.jsonl")

    def keep_metric_lines(self, lines: Sequence[MetricLine]) -> None:
        """Let `metrics.jsonl` hold these lines alone."""
        self._assert_writing()
        keep_lines(self.path / "metrics.jsonl", lines)

    def events(self) -> tuple[Event, ...]:
        """All events, in order."""
        return read_events(self.path / "events.jsonl")

    def blob(self, sha256: str) -> bytes:
        """The bytes of that digest.

        Raises:
            ShardError: when they are missing or altered.
        """
        path = self.path / "blobs" / sha256
        if not path.is_file() or file_sha256(path) != sha256:
            raise ShardError(
                f"{path} is {'altered' if path.is_file() else 'missing'}; restore it from a copy of the run."
            )
        return path.read_bytes()

    @property
    def _last_seq(self) -> int:
        return self._heads[-1].last_seq if self._heads else -1

    def _newest_digest(self) -> str | None:
        """As it was written; read where this process did not write the newest commit."""
        number = self._heads[-1].number if self._heads else 0
        return self._newest[1] if self._newest and self._newest[0] == number else newest_digest(self.path)

    def _own_tasks(self) -> KnownTasks:
        if self._tasks is None:
            self._tasks = read_known_tasks(self.path, self.commits)
        return self._tasks

    def _assert_writing(self) -> None:
        if self._lock is None:
            raise EvidenceError(f'{self.path} is open for reading; use RunFolder.open(path, "write").')

    def _assert_shards_whole(self) -> None:
        for commit in self._commits:
            for shard in commit.shards:
                assert_whole(self.path, shard)

    def _assert_unedited(self) -> None:
        """Every commit was made under a manifest as it is now, and after the commit before it as it is now."""
        for commit in self._commits:
            self.manifest_of(commit)
        broken = broken_links(self.path, self._commits)
        if broken:
            raise EvidenceError(
                f"{self.path / 'commits'}: commit {broken[0].number - 1} is not the one that commit {broken[0].number} "
                "was written after; it was edited or replaced. Restore it from a copy of the run, or move the later "
                "ones to commits/abandoned and resume from a checkpoint before them."
            )


def _assert_free(path: Path) -> None:
    if path.exists() and not path.is_dir():
        raise FolderExistsError(f"{path} is a file; give a folder that does not exist yet.")
    if (path / "manifest.json").exists():
        raise FolderExistsError(
            f"{path} already holds a run; go on with it by `rollwright resume {shlex.quote(str(path))}`, or give "
            "another folder."
        )
    # What a killed `create` left is ours and is written again.
    known = {"lock", "recipe.toml", ".recipe.toml.partial", ".manifest.json.partial", *_FOLDERS}
    foreign = sorted(p.name for p in path.iterdir() if p.name not in known) if path.is_dir() else []
    if foreign:
        raise FolderExistsError(f"{path} is not empty (it has {foreign[0]}); give a folder that does not exist yet.")


def _lay_out(path: Path, manifest: Manifest, recipe_toml: str, tokenizer: Path | None) -> None:
    remove_partials([path])
    for name in _FOLDERS:
        (path / name).mkdir(exist_ok=True)
    if tokenizer is not None:
        for source in sorted(p for p in tokenizer.iterdir() if p.is_file()):
            write_file(path / "tokenizer" / source.name, source.read_bytes())
    write_file(path / "recipe.toml", recipe_toml.encode())
    sync_folders([path / "tokenizer", path])
    # Last: a folder with a manifest is a run.
    write_file(path / "manifest.json", manifest_to_json(manifest))
    sync_folders([path, path.resolve().parent])
