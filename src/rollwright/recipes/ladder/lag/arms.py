"""The arms of a level as runs: what each resolves to, how far it has come, and how it comes to its end.

    absent ──train──► cut short ──resume──► trained ──eval──► complete

Every command is a process of its own, so that no arm inherits anything of another. What is complete is only read.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import GROUPS_PER_COMMIT, RunFolder, query
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.commands import Commands
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.lag.level import FinalProtocol, Level
from rollwright.recipes.ladder.runs import refuse_another
from rollwright.recipes.resolve import Resolved, resolve

__all__ = ["Arm", "ClimbOrder", "arms_of", "complete", "final_commit", "first_rl_step", "last_step"]

_FINALS = f"""SELECT group_id // {GROUPS_PER_COMMIT} AS number,
  count(DISTINCT task_id), count(DISTINCT (group_id, slot))
  FROM trajectories WHERE purpose = 'evaluation' AND group_id >= {GROUPS_PER_COMMIT} GROUP BY ALL ORDER BY 1"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClimbOrder:
    """What `ladder` was asked for."""

    level: Level
    recipe: str | None
    """None: the level's."""
    values: tuple[int, ...]
    """Of the axis; empty: the level's."""
    settings: Sequence[str]
    """On top of the level's."""
    seed: int
    updates: int | None
    """Steps of RL; None: the recipe's."""
    tasks: int | None
    """Held-out tasks of the final evaluation; None: the level's."""
    folder: Path
    """Of the run folders; it need not exist."""

    @property
    def final(self) -> FinalProtocol:
        """The final evaluation, as asked."""
        of_level = self.level.final
        return of_level if self.tasks is None else FinalProtocol(tasks=self.tasks, samples=of_level.samples)


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One run of a level."""

    name: str
    value: int
    """Of the axis."""
    path: Path
    recipe: str
    """As `train` takes it."""
    settings: tuple[str, ...]
    """All of them, in order."""
    resolved: Resolved


def arms_of(order: ClimbOrder) -> tuple[Arm, ...]:
    """The arms in the order to run them, the baseline first.

    Raises:
        RecipeError: for values or settings that make no ladder, or a recipe that cannot be run.
    """
    axis = order.level.axis
    values = order.values or axis.values
    if values[0] != axis.values[0] or list(values) != sorted(set(values)) or len(values) < 2:
        raise RecipeError(
            f"the values of {axis.key} are {', '.join(map(str, values))}; give {axis.values[0]} first, which the "
            f"others are compared with, then at least one more, rising, such as {','.join(map(str, axis.values))}."
        )
    for setting in order.settings:
        key = setting.partition("=")[0].strip()
        if key == axis.key:
            raise RecipeError(f"{key} is what the arms of level {order.level.number} differ in; leave it out of --set.")
        if key == "run.seed":
            raise RecipeError("run.seed is the same for all arms; give it by --seed.")
    return tuple(_arm(order, value) for value in values)


def _arm(order: ClimbOrder, value: int) -> Arm:
    level = order.level
    recipe = order.recipe or level.recipe
    steps = () if order.updates is None else (f"run.steps={order.updates}",)
    chosen = (*level.settings, *order.settings, *steps, f"{level.axis.key}={value}", f"run.seed={order.seed}")
    resolved = resolve(recipe, chosen)
    name = f"{resolved.recipe.run.name}-{level.axis.name}{value}-seed{order.seed}"
    return Arm(
        name=f"{level.axis.name} {value}",
        value=value,
        path=order.folder / name,
        recipe=recipe,
        settings=chosen,
        resolved=resolved,
    )


def complete(arm: Arm, final: FinalProtocol, commands: Commands, heard: Callable[[str], None]) -> None:
    """Bring an arm to its end, from wherever it stands.

    Args:
        arm: its folder may hold nothing, a part of the run, or all of it.
        final: what it is measured by at its end.
        commands: that run now.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: where the folder holds another run.
        LadderError: where a command failed.
        RunStoppedError: where someone stopped one.
    """
    log = arm.path.with_name(f"{arm.path.name}.log")
    if not (arm.path / "manifest.json").exists():
        heard(f"{arm.name}: trains in {arm.path}")
        words = [word for setting in arm.settings for word in ("--set", setting)]
        commands.run(arm.name, ["train", arm.recipe, *words, "--run-dir", str(arm.path), "--json"], log)
    else:
        refuse_another(arm.path, arm.resolved)
        if final_commit(arm, final) is None and (saved := _saved_step(arm.path)) < last_step(arm.resolved.recipe):
            heard(f"{arm.name}: goes on after step {saved} in {arm.path}")
            commands.run(arm.name, ["resume", str(arm.path), "--json"], log)
    if final_commit(arm, final) is None:
        heard(f"{arm.name}: {final.tasks} held-out tasks × {final.samples} at its end")
        size = ("--tasks", str(final.tasks), "--samples", str(final.samples))
        commands.run(arm.name, ["eval", str(arm.path), *size, "--json"], log)
    if final_commit(arm, final) is None:
        raise LadderError(
            f"{arm.path} has no evaluation of {final.tasks} tasks × {final.samples} after `rollwright eval`."
        )


def final_commit(arm: Arm, final: FinalProtocol) -> int | None:
    """The commit that holds the evaluation of an arm's last step, the newest of several; None where there is none."""
    last = last_step(arm.resolved.recipe)
    commits = RunFolder.open(arm.path).commits
    able = {commit.number for commit in commits if commit.kind == "evaluation" and commit.step == last}
    due = (final.tasks, final.tasks * final.samples)
    found = [number for number, *counts in query(arm.path, _FINALS).rows if tuple(counts) == due and number in able]
    return None if not found else int(str(found[-1]))


def last_step(recipe: RecipeConfig) -> int:
    """The last step of a whole run."""
    return first_rl_step(recipe) - 1 + recipe.run.steps


def first_rl_step(recipe: RecipeConfig) -> int:
    """The first step of RL, behind all warm starts."""
    return 1 + sum(stage.steps for stage in recipe.stages if isinstance(stage, SupervisedStageConfig))


def _saved_step(path: Path) -> int:
    """Where `resume` would go on; a commit behind it may hold the causes of a step that was never trained."""
    chosen = RunFolder.open(path).newest_checkpoint().chosen
    return 0 if chosen is None else chosen.step
