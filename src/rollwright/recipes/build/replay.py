"""What a replay follows: the schedule of a stored run, its groups by step, and the ids of everything else."""

from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import GROUPS_PER_COMMIT, StoredRun
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Group, Trajectory
from rollwright.runtime.schedule import Schedule

__all__ = ["Replay", "read_replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """Of one stored run."""

    steps: int
    """Up to its newest checkpoint; the replay ends there, and its schedules are those of the whole recipe."""
    groups: dict[int, tuple[Group, ...]]
    """Trained by reinforcement, by step."""
    other_ids: tuple[int, ...]
    """Group ids of its demonstrations and evaluations, in the order in which they were handed out, and then the first
    id behind all that it trained."""
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
    checkpoint = source.folder.newest_checkpoint().chosen
    steps = 0 if checkpoint is None else checkpoint.step
    warm = sum(stage.steps for stage in recipe.stages if isinstance(stage, SupervisedStageConfig))
    if steps <= warm:
        raise RecipeError(
            f"{path} holds no step of reinforcement learning up to its newest checkpoint; there is no schedule to "
            "follow."
        )
    groups = {step: source.groups("train", step) for step in range(warm + 1, steps + 1)}
    members = [member.trajectory for some in groups.values() for group in some for member in group.members]
    for trajectory in members:
        _refuse_unfollowable(path, trajectory)
    others = {
        group.group_id
        for step in source.steps
        for purpose in ("demonstration", "evaluation")
        for group in source.groups(purpose, step)
        if step <= steps and group.group_id < GROUPS_PER_COMMIT
    }
    behind = 1 + max(*others, *(group.group_id for some in groups.values() for group in some), 0)
    return Replay(steps=steps, groups=groups, other_ids=(*sorted(others), behind), schedule=Schedule.of(members))


def _refuse_unfollowable(path: Path, trajectory: Trajectory) -> None:
    name = trajectory.trajectory_id
    if trajectory.lineage not in (None, "retry_of"):
        raise RecipeError(
            f"{path} trained {name}, which is {trajectory.lineage} {trajectory.parent_trajectory_id}; a replay follows "
            "runs whose episodes were lived in one piece (rollout.truncation other than `resume`, no parked "
            "stragglers)."
        )
    for segment in trajectory.segments:
        if segment.origin == "policy" and segment.cache_version != segment.policy_version:
            raise RecipeError(
                f"{path} trained {name}, whose turn {segment.turn} went on under version {segment.policy_version} of "
                f"the weights with what version {segment.cache_version} had cached (runtime.swap = continue); a replay "
                "computes each context anew. Runs with `drain` or `recompute` can be followed."
            )
