"""Finished steps on their way to the disk, behind the loop's back: in order, one at a time.

    loop ──rows, checkpoint, then──► [one write at a time: commit ──► checkpoint ──► prune] ──► then
              ▲ waits for the write before

While a step is written the next is sampled and trained; more than one is never on its way, so a run that dies loses no
more than one finished step beyond its last checkpoint's. What a write runs into is raised at the next call.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path

from rollwright.evidence import Checkpoint, Commit, CommitRows, RunFolder
from rollwright.runtime.checkpoints import save_checkpoint
from rollwright.runtime.progress import Progress

__all__ = ["CheckpointRule", "Saver", "Standing"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRule:
    """What is saved and what is kept."""

    every: int
    keep: int
    keep_every: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standing:
    """What a checkpoint holds, as it stood after a step."""

    progress: Progress
    write_learner: Callable[[Path], None]


class Saver:
    """Writes what it is given; its waits are the disk's alone."""

    def __init__(
        self,
        folder: RunFolder,
        rule: CheckpointRule,
        *,
        kept_steps: frozenset[int],
        judge: Callable[[int], None],
        now: Callable[[], datetime],
    ) -> None:
        """Store the parts.

        Args:
            folder: of the run.
            rule: which checkpoints stay.
            kept_steps: whose checkpoints stay whatever the rule says.
            judge: asked of each step that was evaluated, once it is written, in the thread that wrote it.
            now: stamps the commits.
        """
        self._folder = folder
        self._judge = judge
        self._rule = rule
        self._kept_steps = kept_steps
        self._now = now
        self._writing: asyncio.Task[None] | None = None
        self._last: Commit | None = None
        self._saved: Commit | None = None

    @property
    def is_saved(self) -> bool:
        """Whether the newest commit has its checkpoint; asked when nothing is on its way."""
        return self._last is None or self._saved is self._last

    async def save(
        self, rows: CommitRows, standing: Standing | None = None, then: Callable[[], None] = lambda: None
    ) -> None:
        """Begin to write a step once the step before is written.

        Args:
            rows: of its commit.
            standing: its checkpoint; None: it has none.
            then: called on the loop's thread when all of it is durable.

        Raises:
            Exception: whatever the write before ran into.
        """
        await self.flush()

        def write() -> None:
            self._last = self._folder.commit(rows, at=self._now())
            if standing is not None:
                self._keep(standing)
            if rows.evaluations:
                self._judge(rows.step)

        self._writing = asyncio.create_task(_written(write, then), name=f"writing step {rows.step}")

    async def keep(self, standing: Standing) -> None:
        """Write the checkpoint of the newest commit, which has none, and wait for it."""
        await self.flush()
        self._writing = asyncio.create_task(_written(partial(self._keep, standing)), name="writing a checkpoint")
        await self.flush()

    async def flush(self) -> None:
        """Wait until nothing is on its way; a write that has begun is ended, whoever is cancelled meanwhile.

        Raises:
            Exception: whatever the last write ran into.
        """
        writing = self._writing
        if writing is None:
            return
        cancelled: asyncio.CancelledError | None = None
        while not writing.done():
            try:
                await asyncio.wait({writing})
            except asyncio.CancelledError as error:
                cancelled = error
        self._writing = None
        if cancelled is not None:
            raise cancelled from (None if writing.cancelled() else writing.exception())
        writing.result()

    def _keep(self, standing: Standing) -> None:
        commit = self._last
        assert commit is not None, "a checkpoint belongs to a commit"
        save_checkpoint(self._folder, commit, standing.write_learner, standing.progress)
        self._saved = commit
        self._folder.prune_checkpoints(keep_last=self._rule.keep, keep=self._is_kept)

    def _is_kept(self, checkpoint: Checkpoint) -> bool:
        step, every = checkpoint.step, self._rule.keep_every
        return step in self._kept_steps or (every > 0 and step % every == 0)


async def _written(write: Callable[[], None], then: Callable[[], None] = lambda: None) -> None:
    await asyncio.to_thread(write)
    then()
