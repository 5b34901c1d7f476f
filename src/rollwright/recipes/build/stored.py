"""Learning again from a stored run: its batches by step, and a recipe no longer than what it holds."""

from collections.abc import Sequence

from rollwright.evidence import StoredRun
from rollwright.recipes.config.learning import StageConfig, SupervisedStageConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved
from rollwright.record import Group
from rollwright.runtime.observers import Observer

__all__ = ["shortened", "stored_groups"]


def stored_groups(source: StoredRun, step: int) -> Sequence[Group]:
    """The groups that a step of the source consumed, or only sampled where it stopped there; demonstrations first."""
    groups = [*source.groups("demonstration", step), *source.groups("train", step)]
    if groups:
        return groups
    ready = [row for row in source.ledger if row.state == "ready" and row.step == step and row.trajectory_id]
    members = source.trajectories([row.trajectory_id for row in ready if row.trajectory_id is not None])
    sizes: dict[int, int] = {}
    for row in source.ledger:
        if row.state == "in_flight" and row.attempt == 0:
            sizes[row.group_id] = sizes.get(row.group_id, 0) + 1
    by_group: dict[int, list[int]] = {}
    for place, member in enumerate(members):
        by_group.setdefault(member.trajectory.group_id, []).append(place)
    return [
        Group(
            group_id=group_id,
            task=members[places[0]].trajectory.task,
            size=sizes[group_id],
            members=tuple(members[place] for place in sorted(places, key=lambda p: members[p].trajectory.slot)),
        )
        for group_id, places in sorted(by_group.items())
    ]


def shortened(resolved: Resolved, source: StoredRun, observer: Observer) -> Resolved:
    """The recipe with as many steps as the source holds.

    Raises:
        RecipeError: when the source holds no step.
    """
    left = max(source.steps, default=0)
    if left == 0:
        raise RecipeError(f"{source.folder.path} holds no finished step; there is nothing to learn from.")
    recipe = resolved.recipe
    wanted = sum(s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in recipe.stages)
    if left >= wanted:
        return resolved
    observer.warned(f"{source.folder.path} holds {left} of the recipe's {wanted} steps; the run ends with them")
    stages: list[StageConfig] = []
    run = recipe.run
    for stage in recipe.stages:
        if left == 0:
            break
        if isinstance(stage, SupervisedStageConfig):
            steps = min(stage.steps, left)
            stages.append(stage.model_copy(update={"steps": steps}))
        else:
            steps = min(run.steps, left)
            run = run.model_copy(update={"steps": steps})
            stages.append(stage)
        left -= steps
    shorter = recipe.model_copy(update={"run": run, "stages": tuple(stages)})
    return resolved.with_recipe(shorter, origin=f"run {source.folder.path.name}")
