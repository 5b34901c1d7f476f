"""A game of the package `textarena`."""

from importlib.metadata import version
from typing import cast

from rollwright.environments.adapters import AdaptedEnvironment, GameLimits, OpponentFn, text_arena
from rollwright.recipes.worlds.brought import brought_demonstration, brought_function, seeded_tasks
from rollwright.recipes.worlds.world import World
from rollwright.tasks import SplitSizes, Stratum
from rollwright.verifiers import Part, reported_verifier

__all__ = ["load"]


def load(  # noqa: PLR0913 - the arguments of a recipe, by name
    *,
    game: str = "TowerOfHanoi-v0",
    num_players: int = 1,
    seat: int = 0,
    opponent: str = "",
    message_characters: int = 4000,
    reference: str = "",
) -> World:
    """A game of the package textarena, by its id; the policy plays one seat.

    Args:
        game: id in the package's registry.
        num_players: of a game.
        seat: the policy's.
        opponent: `package.module:function` of (observation, seed) to a move, for the other seats.
        message_characters: longer observations are cut, with a mark.
        reference: `package.module:function` of (task, seed) to turns that win.

    Raises:
        EnvironmentSetupError: for a game that cannot be played here, with the reason.
    """
    other = cast("OpponentFn", brought_function(opponent)) if opponent else None
    arena = text_arena(game, num_players=num_players, seat=seat, opponent=other)
    revision = f"textarena-{version('textarena')}"
    demonstrate = brought_demonstration(reference)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return seeded_tasks(game, revision, sizes, seed)

    return World(
        environment=AdaptedEnvironment(
            name="textarena",
            settings={
                "package": revision,
                "game": game,
                "num_players": num_players,
                "seat": seat,
                "opponent": opponent,
            },
            start=arena.open,
            limits=GameLimits(message_characters=message_characters),
            demonstrate=demonstrate,
        ),
        tasks=tasks,
        parts=(Part(verifier=reported_verifier()),),
        reference=demonstrate,
        spoken=arena.spoken,
    )
