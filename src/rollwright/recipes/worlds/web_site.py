"""A web shop in memory: search, look at goods, choose an option, buy."""

from rollwright.environments import (
    GamePlanner,
    GameRules,
    TextGameEnvironment,
    WalkDemonstrator,
    WebSiteGame,
    game_attacks,
    seen_in_games,
)
from rollwright.recipes.worlds.world import World
from rollwright.tasks import SplitSizes, Stratum, shop_source, stratum_of
from rollwright.verifiers import Part, goal_state_verifier

__all__ = ["load"]


def load(*, max_turns: int = 12, planned_share: float = 0.5, invalid_reward: float = 0.0) -> World:
    """Shopping by instruction, with the actions of WebShop on a site that is all here.

    Args:
        max_turns: actions in an episode.
        planned_share: of the actions in demonstrations; the others are drawn from what the page offers.
        invalid_reward: paid to the turn of an action that does nothing.
    """
    game = WebSiteGame()
    planner = GamePlanner(game)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(shop_source(sizes, seed=seed), 1.0),)

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
        spoken=seen_in_games(game, shop_source(SplitSizes(train=20, held_out=0)).train),
    )
