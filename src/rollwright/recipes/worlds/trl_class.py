"""An environment class of TRL."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

from rollwright.environments.adapters import AdaptedEnvironment, GameLimits, RewardFn, TrlClass
from rollwright.recipes.worlds.brought import brought_demonstration, brought_function, row_tasks
from rollwright.recipes.worlds.world import World
from rollwright.tasks import SplitSizes, Stratum
from rollwright.verifiers import Part, reported_verifier

__all__ = ["load"]


def load(
    *,
    factory: str,
    rows: str,
    rewards: str = "",
    revision: str = "",
    message_characters: int = 4000,
    reference: str = "",
) -> World:
    """An environment class of TRL: reset(**row), public methods as tools, get_reward() or reward functions.

    Args:
        factory: `package.module:callable` without arguments; makes an environment for each episode.
        rows: JSONL file; a row has `prompt` (text or messages), and is given to `reset` whole.
        rewards: reward functions, `package.module:function`, with commas between.
        revision: of the class, for the run's record; the class itself says none.
        message_characters: longer messages and results are cut, with a mark.
        reference: `package.module:function` of (task, seed) to turns that solve it.

    Raises:
        EnvironmentSetupError: for a class that cannot be played, with the reason.
    """
    named = [path.strip() for path in rewards.split(",") if path.strip()]
    functions = {path.partition(":")[2]: cast("RewardFn", brought_function(path)) for path in named}
    environment = TrlClass(cast("Callable[[], object]", brought_function(factory)), functions)
    demonstrate = brought_demonstration(reference)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return row_tasks(Path(rows), factory.replace(":", "."), revision or "unnamed", sizes)

    return World(
        environment=AdaptedEnvironment(
            name="trl",
            settings={"factory": factory, "rewards": rewards, "revision": revision},
            start=environment.open,
            limits=GameLimits(message_characters=message_characters),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(Part(verifier=reported_verifier()),),
        reference=demonstrate,
    )
