"""What a run that begins and one that goes on share: what is told, the loop to its end, and what it came to."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rollwright.evidence import Checkpoint, RunFolder, StoredRun, content_hash
from rollwright.recipes.build.crossing import carried_over, settle_open_groups
from rollwright.recipes.build.learner import StagedLearner
from rollwright.recipes.build.session import Foundation, LoopOrder, loop_parts
from rollwright.recipes.build.stored import StoredBatches
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.runtime.loop import Loop
from rollwright.runtime.loop_parts import LoopParts, RunResult
from rollwright.runtime.observers import RunStarted
from rollwright.runtime.progress import EvaluationPoint, Progress

__all__ = ["REPLAY", "ROLLOUTS_ONLY", "SOURCE", "Saved", "TrainResult", "go_to_end", "started"]

ROLLOUTS_ONLY = "rollouts_only"
"""The event of a run that records and does not learn."""
REPLAY = "replay"
"""The event that names the stored run whose schedule this one follows."""
SOURCE = "source"
"""The event that names the stored run that this one learns from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a command came to."""

    run_dir: str
    steps: int
    seconds: float
    before: EvaluationPoint | None
    after: EvaluationPoint | None
    max_mismatch: float | None
    num_action_tokens: int
    num_episodes: int
    content_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """Where a run goes on."""

    checkpoint: Checkpoint
    progress: Progress


def started(
    foundation: Foundation, folder: RunFolder, resumed_step: int | None, stored: StoredBatches | None
) -> RunStarted:
    """What an observer hears where a run begins or goes on."""
    from rollwright.learner.models import num_parameters

    recipe = foundation.recipe
    steps = [s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in recipe.stages]
    return RunStarted(
        run_dir=str(folder.path),
        run_id=folder.manifest.run.run_id,
        stages=tuple(stage.name for stage in recipe.stages),
        total_steps=sum(steps) if stored is None else stored.steps,
        resumed_step=resumed_step,
        num_parameters=num_parameters(foundation.model),
    )


def go_to_end(
    foundation: Foundation,
    order: LoopOrder,
    stack: ExitStack,
    *,
    saved: Saved | None = None,
    instead: Callable[[LoopParts], Awaitable[RunResult]] | None = None,
) -> TrainResult:
    """Run the loop, or what was asked for instead, and close what it opened.

    Args:
        foundation: of the run.
        order: what the loop is made by.
        stack: closes what is opened for it.
        saved: where the run goes on; None: it begins.
        instead: of the loop.

    Raises:
        RunStoppedError: when the user stopped it; what was saved stays.
    """

    async def go() -> RunResult:
        parts, learner, engine = loop_parts(foundation, order, stack)
        undo = order.shutdown.listen()
        try:
            progress = None
            if saved is not None:
                progress = _in_this_segment(foundation, order.folder, parts, saved)
                began = time.monotonic()
                parts.learner_thread.submit(_restore, parts, learner, progress, saved.checkpoint.path).result()
                parts = replace(parts, restored_s=time.monotonic() - began)
            return await (instead(parts) if instead is not None else Loop(parts, progress).run())
        finally:
            undo()
            await engine.close()

    result = asyncio.run(go())
    return TrainResult(
        run_dir=str(order.folder.path),
        steps=result.steps,
        seconds=result.seconds,
        before=result.before,
        after=result.after,
        max_mismatch=result.max_mismatch,
        num_action_tokens=result.num_action_tokens,
        num_episodes=result.num_episodes,
        content_hash=content_hash(order.folder.path),
    )


def _in_this_segment(foundation: Foundation, folder: RunFolder, parts: LoopParts, saved: Saved) -> Progress:
    """Where the run stands, in the segment that it goes on in."""
    progress = saved.progress
    [commit] = [c for c in folder.commits if c.number == saved.checkpoint.commit]
    if folder.manifest_of(commit) == folder.manifest:
        return progress
    carried = carried_over(progress, foundation.recipe, foundation.world.mixture, parts.stages)
    left = [group for group in progress.collector.open_groups if group not in carried.collector.open_groups]
    if left:
        settle_open_groups(parts.ledger, left, StoredRun(folder.path), step=progress.step + 1)
    return carried


def _restore(parts: LoopParts, learner: StagedLearner, progress: Progress, folder: Path) -> None:
    parts.stages[min(progress.stage, len(parts.stages) - 1)].begin()
    learner.restore(folder)
