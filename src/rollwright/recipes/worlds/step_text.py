"""An environment with `init` and `step` of text: SkyRL-Gym's registry, or a class by name."""

from pathlib import Path

from rollwright.environments.adapters import AdaptedEnvironment, GameLimits, StepText, entry_of, require_package
from rollwright.recipes.worlds.brought import brought_demonstration, brought_json, row_tasks
from rollwright.recipes.worlds.world import World
from rollwright.record import canonical_json
from rollwright.tasks import SplitSizes, Stratum
from rollwright.verifiers import Part, reported_verifier

__all__ = ["load"]


def load(  # noqa: PLR0913 - the arguments of a recipe, by name
    *,
    entry: str,
    rows: str,
    package: str = "skyrl-gym",
    version: str = "",
    settings: str = "",
    message_characters: int = 4000,
    reference: str = "",
) -> World:
    """An environment of init(prompt) and step(text), by its id in skyrl_gym's registry or by package.module:Class.

    Args:
        entry: which environment.
        rows: JSONL file; a row has `prompt` (text or messages), the rest is given to the environment as `extras`.
        package: that the environment comes from.
        version: of the package, exactly; empty takes what is installed.
        settings: JSON object, given as `env_config`.
        message_characters: longer observations are cut, with a mark.
        reference: `package.module:function` of (task, seed) to turns that solve it.

    Raises:
        EnvironmentSetupError: where there is no such environment, package or version.
    """
    found = require_package(package, version)
    environment = StepText(entry_of(entry), brought_json("settings", settings))
    demonstrate = brought_demonstration(reference)
    revision = f"{package}-{found}"

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return row_tasks(Path(rows), entry.replace(":", "."), revision, sizes)

    return World(
        environment=AdaptedEnvironment(
            name="skyrl_gym",
            settings={
                "package": revision,
                "entry": entry,
                "settings": canonical_json(brought_json("settings", settings)),
            },
            start=environment.open,
            limits=GameLimits(message_characters=message_characters),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(Part(verifier=reported_verifier()),),
        reference=demonstrate,
    )
