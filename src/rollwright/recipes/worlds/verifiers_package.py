"""An environment that was written for the package `verifiers` (0.4)."""

from rollwright.environments.adapters import AdaptedEnvironment, GameLimits, VerifiersGames
from rollwright.recipes.worlds.brought import brought_demonstration, brought_json
from rollwright.recipes.worlds.world import World
from rollwright.record import canonical_json
from rollwright.tasks import Json, SplitSizes, Stratum, fill_splits, open_verifiers, stratum_of, verifiers_version
from rollwright.verifiers import Part, RubricVerifier, ScorerLimits, rubric_pool

__all__ = ["load"]


def load(  # noqa: PLR0913 - the arguments of a recipe, by name
    *,
    taskset: str,
    arguments: str = "",
    environment: str = "",
    settings: str = "",
    message_characters: int = 4000,
    score_cpu_s: float = 30.0,
    reference: str = "",
) -> World:
    """An environment of the package verifiers: its rows, its run, its tools and its rewards, with our driver.

    Args:
        taskset: id as the package takes it: an installed module that exports a `Taskset`.
        arguments: JSON object for the taskset's configuration.
        environment: id of an `Env` to pair it with; empty takes the taskset's own.
        settings: JSON object for the environment's configuration.
        message_characters: longer messages and results are cut, with a mark.
        score_cpu_s: CPU time that scoring one episode may take.
        reference: `package.module:function` of (task, seed) to turns that solve it.

    Raises:
        TaskError: where it needs what cannot be carried, with its name.
    """
    chosen: dict[str, Json] = {
        "taskset": taskset,
        "arguments": brought_json("arguments", arguments),
        "environment": environment,
        "settings": brought_json("settings", settings),
    }
    package = open_verifiers(
        taskset,
        brought_json("arguments", arguments),
        environment=environment,
        settings=brought_json("settings", settings),
    )
    pool = rubric_pool(chosen, ScorerLimits(cpu_s=score_cpu_s, wall_s=max(60.0, 4 * score_cpu_s), start_s=300.0))
    revision = f"verifiers-{verifiers_version()}"
    demonstrate = brought_demonstration(reference)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(fill_splits(package.rows(), sizes, name=taskset, revision=revision), 1.0),)

    return World(
        environment=AdaptedEnvironment(
            name="verifiers",
            settings={"package": revision, "environment": canonical_json(chosen)},
            start=VerifiersGames(package).open,
            limits=GameLimits(message_characters=message_characters),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(Part(verifier=RubricVerifier(pool=pool, settings=chosen)),),
        reference=demonstrate,
        close=pool.close,
    )
