"""Games of other packages with `reset()` and `step(action)` in text: ALFWorld, WebShop and what has their form."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from rollwright.environments import EnvironmentSetupError, ResetStepEnvironment, ResetStepGame, ResetStepRules
from rollwright.environments.adapters import require_package
from rollwright.recipes.worlds.brought import brought_demonstration, brought_function, row_tasks
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.tasks import Json, SplitSizes, Stratum, payload_of
from rollwright.verifiers import Part, invalid_actions_verifier, return_verifier, won_verifier

__all__ = ["load"]


def load(  # noqa: PLR0913 - the arguments of a recipe, by name
    *,
    package: str,
    entry: str,
    rows: str,
    version: str = "",
    max_turns: int = 50,
    won_reward: float = 1.0,
    success: float = 10.0,
    invalid: float = -0.1,
    state_key: str = "",
    reference: str = "",
) -> World:
    """Games of an installed package with reset() and step(action), paid for being won and less for invalid actions.

    Args:
        package: that the games come from; it must be installed.
        entry: `package.module:function` of a row and a seed that makes a game which has not begun.
        rows: JSONL file; a row has `prompt`, and whatever the entry needs to make its game.
        version: of the package, exactly; empty takes what is installed.
        max_turns: of an episode.
        won_reward: return from which a finished game is won.
        success: what a won game is paid; any other is paid nothing.
        invalid: what each action that is not admissible adds.
        state_key: where the game's info holds the identity of a state; empty: its observation.
        reference: `package.module:function` of (task, seed) to turns that win.

    Raises:
        EnvironmentSetupError: where the package is not installed, or is of another version.
    """
    found = require_package(package, version)
    make = cast("Callable[[Mapping[str, Json], int], ResetStepGame]", brought_function(entry))
    revision = f"{package}-{found}"

    def made(task: Task, seed: int) -> ResetStepGame:
        row = payload_of(task).info.get("row")
        if not isinstance(row, Mapping):
            raise EnvironmentSetupError(f"task {task.task_id} has no `info.row`; it is no task of this world")
        return make(row, seed)

    demonstrate = brought_demonstration(reference)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return row_tasks(Path(rows), package, revision, sizes)

    return World(
        environment=ResetStepEnvironment(
            made,
            name=package,
            revision=f"{revision}:{entry}",
            rules=ResetStepRules(turns=max_turns, won_reward=won_reward, state_key=state_key),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(
            Part(verifier=won_verifier(), weight=success),
            Part(verifier=invalid_actions_verifier(), weight=invalid, role="shaping"),
            Part(verifier=return_verifier(), weight=0.0, role="shaping"),
        ),
        reference=demonstrate,
        success_threshold=success + min(0.0, invalid) * max_turns,
    )
