"""The arms of a level as runs: what each resolves to, how far it has come, and how it comes to its end.

    absent ──train──► cut short ──resume──► trained ──eval──► complete

Every command is a process of its own, so that no arm inherits anything of another. What is complete is only read.
"""

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import GROUPS_PER_COMMIT, RunFolder, query
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.ladder.errors import LadderError
from rollwright.recipes.ladder.level import FinalProtocol, Level
from rollwright.recipes.resolve import Resolved, resolve, resolve_text
from rollwright.runtime.errors import RunStoppedError

__all__ = ["Arm", "ClimbOrder", "arms_of", "complete", "final_commit", "first_rl_step", "last_step"]

_STOPPED = (130, -signal.SIGTERM)
"""Exit codes of a command that someone stopped, while it listened and before."""
_SHOWN = 3
"""Differences of two recipes that a sentence names."""
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


def complete(arm: Arm, final: FinalProtocol, heard: Callable[[str], None]) -> None:
    """Bring an arm to its end, from wherever it stands.

    Args:
        arm: its folder may hold nothing, a part of the run, or all of it.
        final: what it is measured by at its end.
        heard: told in a sentence what is done.

    Raises:
        RecipeError: where the folder holds another run.
        LadderError: where a command failed.
        RunStoppedError: where someone stopped one.
    """
    if not (arm.path / "manifest.json").exists():
        heard(f"{arm.name}: trains in {arm.path}")
        words = [word for setting in arm.settings for word in ("--set", setting)]
        _run(arm, ["train", arm.recipe, *words, "--run-dir", str(arm.path)])
    else:
        _refuse_another(arm)
        if final_commit(arm, final) is None and (saved := _saved_step(arm.path)) < last_step(arm.resolved.recipe):
            heard(f"{arm.name}: goes on after step {saved} in {arm.path}")
            _run(arm, ["resume", str(arm.path)])
    if final_commit(arm, final) is None:
        heard(f"{arm.name}: {final.tasks} held-out tasks × {final.samples} at its end")
        _run(arm, ["eval", str(arm.path), "--tasks", str(final.tasks), "--samples", str(final.samples)])
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


def _refuse_another(arm: Arm) -> None:
    stored = RunFolder.open(arm.path).recipe_toml
    found = resolve_text(stored, origin=f"run {arm.path.name}").values()
    due = arm.resolved.values()
    if found == due:
        return
    keys = [key for key in sorted(found.keys() | due.keys()) if found.get(key) != due.get(key)]
    listed = "; ".join(f"{key} is {found.get(key)!r} there and {due.get(key)!r} here" for key in keys[:_SHOWN])
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    raise RecipeError(f"{arm.path} holds a run of another recipe ({listed}{more}); give another --runs, or remove it.")


def _run(arm: Arm, words: Sequence[str]) -> None:
    """One command of the program, its lines appended to a file beside the run folder."""
    log = arm.path.with_name(f"{arm.path.name}.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as lines:
        process = subprocess.Popen(
            [sys.executable, "-m", "rollwright", *words, "--json"], stdout=lines, stderr=subprocess.STDOUT
        )
        code = _ended(process)
    if code in _STOPPED:
        raise RunStoppedError(f"{arm.name} was stopped; the same command goes on from what it saved.")
    if code != 0:
        last = log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
        raise LadderError(f"{arm.name}: `rollwright {words[0]}` ended with exit code {code}; the end of {log}: {last}")


def _ended(process: "subprocess.Popen[bytes]") -> int:
    """The exit code of a command; SIGTERM is passed on, so that it saves what it has and frees its folder."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: process.send_signal(number))
    try:
        return process.wait()
    except KeyboardInterrupt:
        return process.wait()  # It heard the same signal, and saves what it has.
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            process.kill()
            process.wait()
