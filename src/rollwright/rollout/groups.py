"""Attempts that run together."""

import asyncio
from collections.abc import Mapping, Sequence

from rollwright.record import Engine, Environment, Trajectory
from rollwright.rendering import Renderer
from rollwright.rollout.clock import Clock
from rollwright.rollout.driver import run_episode
from rollwright.rollout.spec import EpisodeSpec

__all__ = ["run_group"]


async def run_group(
    specs: Sequence[EpisodeSpec],
    *,
    engines: Mapping[str, Engine],
    environment: Environment,
    renderer: Renderer,
    clock: Clock,
) -> tuple[Trajectory, ...]:
    """Run attempts together; each ends as a trajectory, in the order given.

    Args:
        specs: of one group or of several.
        engines: as in `run_episode`.
        environment: opened once for each attempt.
        renderer: of the policies' tokenizer.
        clock: for time stamps and durations.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(
                run_episode(spec, engines=engines, environment=environment, renderer=renderer, clock=clock),
                name=spec.trajectory_id,
            )
            for spec in specs
        ]
    return tuple(task.result() for task in tasks)
