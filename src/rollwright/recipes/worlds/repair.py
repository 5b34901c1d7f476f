"""Repair of infeasible inequalities, with a solver that runs again after every action."""

from rollwright.environments import (
    GamePlanner,
    GameRules,
    RepairGame,
    TextGameEnvironment,
    WalkDemonstrator,
    game_attacks,
    seen_in_games,
)
from rollwright.recipes.worlds.world import World
from rollwright.tasks import SplitSizes, Stratum, repair_source, stratum_of
from rollwright.verifiers import Part, goal_state_verifier, return_verifier

__all__ = ["load"]


def load(*, constraints: int = 6, drops: int = 2, max_turns: int = 8, planned_share: float = 0.5) -> World:
    """Systems of differences that no values satisfy, until few constraints are dropped.

    Args:
        constraints: of each system.
        drops: that may be dropped at once.
        max_turns: actions in an episode.
        planned_share: of the actions in demonstrations; the others are drawn from what can be done.
    """
    game = RepairGame()
    planner = GamePlanner(game)

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(repair_source(sizes, constraints=constraints, drops=drops, seed=seed), 1.0),)

    examples = repair_source(SplitSizes(train=20, held_out=0), constraints=constraints, drops=drops).train
    return World(
        environment=TextGameEnvironment(
            game,
            rules=GameRules(turns=max_turns),
            demonstrate=WalkDemonstrator(planner=planner, turns=max_turns, planned_share=planned_share),
        ),
        tasks=tasks,
        parts=(Part(verifier=goal_state_verifier()), Part(verifier=return_verifier(), weight=0.0, role="shaping")),
        reference=planner,
        attacks=game_attacks(game, turns=max_turns),
        spoken=seen_in_games(game, examples),
    )
