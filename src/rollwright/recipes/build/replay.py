"""What a replay follows: the schedule of a stored run, its groups by step, and the ids of everything else."""

from dataclasses import dataclass

from rollwright.evidence import StoredRun
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Group
from rollwright.runtime.schedule import Schedule

__all__ = ["Replay", "read_replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Of one stored run."""

    steps: int
    """How many it finished; the replay ends there, and its schedules are those of the whole recipe."""
    groups: dict[int, tuple[Group, ...]]
    """Trained by reinforcement, by step."""
    other_ids: tuple[int, ...]
    """Group ids of its demonstrations and evaluations, in the order in which they were handed out."""
    schedule: Schedule


def read_replay(recipe: RecipeConfig, source: StoredRun) -> Replay:
    """Everything that a replay of a stored run needs.

    Args:
        recipe: of the run.
        source: the stored run.

    Raises:
        RecipeError: for a run that cannot be followed, with the reason.
    """
    path = source.folder.path
    if source.folder.manifest.run.source_run_id is not None:
        raise RecipeError(f"{path} learned from stored episodes; `rollwright train --from` learns from them again.")
    steps = max(source.steps, default=0)
    warm = sum(stage.steps for stage in recipe.stages if isinstance(stage, SupervisedStageConfig))
    if steps <= warm:
        raise RecipeError(f"{path} holds no finished step of reinforcement learning; there is no schedule to follow.")
    groups = {step: source.groups("train", step) for step in range(warm + 1, steps + 1)}
    members = [member.trajectory for some in groups.values() for group in some for member in group.members]
    for trajectory in members:
        if trajectory.lineage not in (None, "retry_of"):
            raise RecipeError(
                f"{path} trained {trajectory.trajectory_id}, which is {trajectory.lineage} "
                f"{trajectory.parent_trajectory_id}; a replay follows runs whose episodes were lived in one piece "
                "(rollout.truncation other than `resume`, no parked stragglers)."
            )
    others = {
        scored.group_id
        for step in source.steps
        for purpose in ("demonstration", "evaluation")
        for scored in source.groups(purpose, step)
    }
    return Replay(steps=steps, groups=groups, other_ids=tuple(sorted(others)), schedule=Schedule.of(members))
