"""A house in text: rooms, containers, objects, and something that is to be put somewhere."""

from rollwright.environments import (
    GamePlanner,
    GameRules,
    HouseGame,
    TextGameEnvironment,
    WalkDemonstrator,
    game_attacks,
    seen_in_games,
)
from rollwright.recipes.worlds.world import World
from rollwright.tasks import HouseSize, SplitSizes, Stratum, house_source, stratum_of
from rollwright.verifiers import Part, goal_state_verifier

__all__ = ["load"]

_SPOKEN_TASKS = 100


def load(  # noqa: PLR0913 - each is one key of a recipe
    *,
    rooms: int = 3,
    containers: int = 2,
    objects: int = 2,
    max_turns: int = 10,
    planned_share: float = 0.5,
    invalid_reward: float = 0.0,
) -> World:
    """Household tasks by text commands, with states that recur and commands that do nothing.

    Args:
        rooms: of each house.
        containers: of each house.
        objects: of each house.
        max_turns: commands in an episode.
        planned_share: of the commands in demonstrations; the others are drawn from what can be done.
        invalid_reward: paid to the turn of a command that does nothing.
    """
    size = HouseSize(rooms=rooms, containers=containers, objects=objects)
    game = HouseGame()
    planner = GamePlanner(game)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(house_source(sizes, size, seed=seed), 1.0),)

    examples = house_source(SplitSizes(train=_SPOKEN_TASKS, held_out=0), size, seed=0).train
    return World(
        environment=TextGameEnvironment(
            game,
            rules=GameRules(turns=max_turns, invalid_reward=invalid_reward),
            demonstrate=WalkDemonstrator(planner=planner, turns=max_turns, planned_share=planned_share),
        ),
        tasks=tasks,
        parts=(Part(verifier=goal_state_verifier()),),
        reference=planner,
        attacks=game_attacks(game, turns=max_turns),
        spoken=seen_in_games(game, examples),
    )
