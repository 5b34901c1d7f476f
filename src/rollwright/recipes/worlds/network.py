"""Defense of a network that is only partly seen; every reward is negative or 0."""

from rollwright.environments import (
    DemonstratedTurn,
    GameRules,
    NetworkGame,
    TextGameEnvironment,
    defended,
    game_attacks,
    seen_in_games,
)
from rollwright.recipes.worlds.world import World
from rollwright.record import Task
from rollwright.tasks import WATCH_STEPS, SplitSizes, Stratum, intrusion_source, payload_of, stratum_of
from rollwright.verifiers import Part, return_verifier

__all__ = ["load"]

_WELL_DEFENDED = -6.0
"""Three intrusions, each one step long and restored once. Nobody who does not know the plan reaches more."""


def load() -> World:
    """Hosts are taken by a plan that is not shown; the return is minus what that and its repair cost."""
    game = NetworkGame()

    def tasks(sizes: SplitSizes, seed: int) -> tuple[Stratum, ...]:
        return (stratum_of(intrusion_source(sizes, seed=seed), 1.0),)

    return World(
        environment=TextGameEnvironment(game, rules=GameRules(turns=WATCH_STEPS), demonstrate=_knowing),
        tasks=tasks,
        parts=(Part(verifier=return_verifier()),),
        reference=_knowing,
        attacks=game_attacks(game, turns=WATCH_STEPS),
        success_threshold=_WELL_DEFENDED,
        spoken=seen_in_games(game, intrusion_source(SplitSizes(train=20, held_out=0)).train),
    )


def _knowing(task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    return tuple(DemonstratedTurn(text=command) for command in defended(payload_of(task)))
