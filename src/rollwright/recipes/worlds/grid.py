"""Grids: an icy lake with holes, or boxes that are pushed onto marks."""

from typing import cast

from rollwright.environments import (
    GamePlanner,
    GameRules,
    GridGame,
    TextGameEnvironment,
    WalkDemonstrator,
    game_attacks,
    seen_in_games,
)
from rollwright.recipes.worlds.world import World
from rollwright.tasks import GridKind, SplitSizes, Stratum, grid_source, stratum_of
from rollwright.verifiers import Part, goal_state_verifier

__all__ = ["load"]


def load(*, kind: str = "lake", size: int = 4, boxes: int = 1, max_turns: int = 0, planned_share: float = 0.5) -> World:
    """Deterministic grids in the manner of FrozenLake and Sokoban, with state keys for anchors.

    Args:
        kind: lake or boxes.
        size: cells in a row.
        boxes: of a puzzle.
        max_turns: steps in an episode; 0: eight times the size.
        planned_share: of the steps in demonstrations; the others are drawn from what can be done.
    """
    game = GridGame()
    planner = GamePlanner(game)
    turns = max_turns or 8 * size
    grid_kind = cast("GridKind", kind)  # Anything else is refused by `grid_source`, in a sentence.

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(grid_source(grid_kind, sizes, size=size, boxes=boxes, seed=seed), 1.0),)

    examples = grid_source(grid_kind, SplitSizes(train=20, held_out=0), size=size, boxes=boxes).train
    return World(
        environment=TextGameEnvironment(
            game,
            rules=GameRules(turns=turns),
            demonstrate=WalkDemonstrator(planner=planner, turns=turns, planned_share=planned_share),
        ),
        tasks=tasks,
        parts=(Part(verifier=goal_state_verifier()),),
        reference=planner,
        attacks=game_attacks(game, turns=turns),
        spoken=seen_in_games(game, examples),
    )
