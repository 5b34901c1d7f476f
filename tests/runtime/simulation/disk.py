"""A run folder in memory: commits and checkpoints outlive each simulated process, and nothing else does."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from rollwright.evidence import Checkpoint, Commit, CommitRows

__all__ = ["Disk", "Written"]


@dataclass(frozen=True, kw_only=True)
class Written:
    """One commit with what it holds."""

    commit: Commit
    rows: CommitRows


class Disk:
    """What the loop asks of a run folder. `touch` is called between any two changes and may raise: no power."""

    def __init__(self, scratch: Path, *, keeps_rows: int | None = None) -> None:
        """`keeps_rows`: commits whose rows stay; None keeps all."""
        self._scratch = scratch
        self._keeps_rows = keeps_rows
        self._number = 0
        self.tokenizer = scratch / "tokenizer"
        self.tokenizer.mkdir(parents=True, exist_ok=True)
        self.written: list[Written] = []
        self.saved: list[Checkpoint] = []
        self.touch: Callable[[], None] = lambda: None
        self.heard: Callable[[CommitRows], None] = lambda rows: None

    @property
    def commits(self) -> tuple[Commit, ...]:
        return tuple(one.commit for one in self.written)

    @property
    def newest(self) -> Checkpoint | None:
        """The checkpoint that a restart goes on from."""
        return self.saved[-1] if self.saved else None

    def commit(self, rows: CommitRows, *, at: datetime) -> Commit:
        self.touch()
        self._number += 1
        commit = Commit(
            number=self._number,
            kind="step",
            step=rows.step,
            committed_at=at,
            manifest_sha256="",
            last_seq=-1,
            previous_sha256=None if self._number == 1 else "",
            shards=(),
        )
        self.written.append(Written(commit=commit, rows=rows))
        if self._keeps_rows is not None:
            del self.written[: -self._keeps_rows]
        self.heard(rows)
        self.touch()
        return commit

    @contextmanager
    def writing_checkpoint(self, commit: Commit) -> Generator[Path]:
        # Folders are used again, since making and removing them takes longer than all else here.
        held = {one.path for one in self.saved}
        path = next(p for p in (self._scratch / f"place-{n}" for n in count()) if p not in held)
        path.mkdir(exist_ok=True)
        self.touch()
        yield path
        self.touch()
        self.saved.append(
            Checkpoint(name=f"step-{commit.step:06d}", path=path, step=commit.step, commit=commit.number, sha256="")
        )
        self.touch()

    def prune_checkpoints(self, *, keep_last: int, keep: Callable[[Checkpoint], bool]) -> tuple[str, ...]:
        gone = [one for one in self.saved[: -max(1, keep_last)] if not keep(one)]
        for one in gone:
            self.saved.remove(one)
        return tuple(one.name for one in gone)

    def abandon_later(self) -> Sequence[Written]:
        """What stands behind the newest checkpoint never happened."""
        last = self.newest.commit if self.newest else 0
        gone = [one for one in self.written if one.commit.number > last]
        self.written = [one for one in self.written if one.commit.number <= last]
        return gone
