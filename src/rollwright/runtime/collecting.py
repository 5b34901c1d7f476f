"""Sampling without learning: the batches that can be had before the first update."""

import asyncio
import time

from rollwright.evidence import CommitRows
from rollwright.runtime.checkpoints import save_checkpoint
from rollwright.runtime.errors import RunStoppedError, first_of
from rollwright.runtime.loop import beginning
from rollwright.runtime.loop_parts import LoopParts, RunResult, Stage
from rollwright.runtime.parts import Collector

__all__ = ["collect_only"]


async def collect_only(parts: LoopParts, *, evaluation_groups: int) -> RunResult:
    """Record what the first stage can give before anything is learned: all its demonstrations, or one batch.

    The first weights are saved beside them, so that a later run can learn from the record alone.

    Args:
        parts: of the run.
        evaluation_groups: groups of the evaluation that `train` begins with; their ids stay free, so that every episode
            has the ids and seeds that it would have there.

    Raises:
        RunStoppedError: when someone asked to stop; the batches before it are recorded.
    """
    began = time.monotonic()
    for _ in range(evaluation_groups):
        parts.counter.take()
    stage = parts.stages[0]
    await asyncio.get_running_loop().run_in_executor(parts.learner_thread, _save_first_weights, parts, stage)
    collector = stage.collector(0)
    if collector.needs_policy:
        await parts.channel.publish(version=0, update=0)
    steps = 1 if collector.needs_policy else stage.steps
    episodes = tokens = 0
    done = 0
    try:
        async with asyncio.TaskGroup() as background:
            working = background.create_task(collector.run(), name=f"collector of {stage.name}")
            while done < steps and not parts.shutdown.is_requested:
                counts = await _record(parts, collector, done + 1)
                done, episodes, tokens = done + 1, episodes + counts[0], tokens + counts[1]
            working.cancel()
    except BaseExceptionGroup as errors:
        raise first_of(errors) from errors
    if done < steps:
        raise RunStoppedError(f"stopped after batch {done} of {steps}; what was recorded can be learned from.")
    return RunResult(
        steps=steps,
        seconds=time.monotonic() - began,
        before=None,
        after=None,
        max_mismatch=None,
        num_action_tokens=tokens,
        num_episodes=episodes,
    )


def _save_first_weights(parts: LoopParts, stage: Stage) -> None:
    stage.begin()
    commit = parts.folder.commit(CommitRows(kind="step", step=0), at=parts.now())
    save_checkpoint(parts.folder, commit, parts.learner.snapshot(), beginning(parts.counter))


async def _record(parts: LoopParts, collector: Collector, step: int) -> tuple[int, int]:
    collected = await collector.collect(step)
    members = [m for g in collected.groups for m in g.members]
    ended = sorted((*members, *collected.others), key=lambda m: m.trajectory_id)
    rows = CommitRows(kind="step", step=step, trajectories=tuple(ended), ledger=parts.ledger.take_rows())
    await asyncio.to_thread(parts.folder.commit, rows, at=parts.now())
    return len(members), sum(m.trajectory.num_action_tokens for m in members)
