"""From the tasks' configuration to a mixture."""

from dataclasses import replace
from pathlib import Path
from typing import assert_never

from rollwright.recipes.config.tasks import (
    ArithmeticTasksConfig,
    JsonlTasksConfig,
    ProvenanceConfig,
    ReasoningGymTasksConfig,
    TasksConfig,
    WorldTasksConfig,
)
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.world import World
from rollwright.tasks import (
    ArithmeticShares,
    GymGenerator,
    Mixture,
    Provenance,
    SplitSizes,
    arithmetic_strata,
    gym_source,
    jsonl_source,
    stratum_of,
)

__all__ = ["build_mixture"]


def build_mixture(config: TasksConfig, *, seed: int, world: World | None = None) -> Mixture:
    """All pools of tasks; what is held out in one trains in none.

    Args:
        config: which tasks.
        seed: of the generators.
        world: that the environment is of, if any.

    Raises:
        RecipeError: for the tasks of a world where there is none.
    """
    match config:
        case ArithmeticTasksConfig():
            sizes = SplitSizes(train=config.num_train, held_out=config.num_held_out)
            shares = ArithmeticShares(easy=config.easy, hard=config.hard, error=config.error)
            return Mixture(strata=arithmetic_strata(sizes, shares=shares, seed=seed))
        case ReasoningGymTasksConfig():
            total = sum(g.weight for g in config.generators)
            strata = [
                stratum_of(
                    gym_source(
                        GymGenerator(name=g.name, parameters=g.parameters, seed=seed),
                        SplitSizes(
                            train=max(1, round(config.num_train * g.weight / total)),
                            held_out=round(config.num_held_out * g.weight / total),
                        ),
                    ),
                    g.weight,
                )
                for g in config.generators
            ]
            return Mixture(strata=tuple(strata))
        case JsonlTasksConfig():
            held_out = Path(config.held_out) if config.held_out else None
            source = jsonl_source(Path(config.train), held_out, share=config.held_out_share)
            stated = replace(source, provenance=_provenance(config.provenance))
            return Mixture(strata=(stratum_of(stated, 1.0),))
        case WorldTasksConfig():
            if world is None:
                raise RecipeError(
                    "tasks.kind 'world' takes the tasks of the environment's world, and environment.kind is another; "
                    "set environment.kind to 'world' and environment.name."
                )
            sizes = SplitSizes(train=config.num_train, held_out=config.num_held_out)
            return Mixture(strata=world.tasks(sizes, seed))
        case _:
            assert_never(config)


def _provenance(config: ProvenanceConfig) -> Provenance:
    def stated(value: str) -> str | None:
        return None if value == "none" else value

    return Provenance(
        license=config.license,
        acquired_on=config.acquired_on,
        generator_model=stated(config.generator_model),
        dedup_revision=stated(config.dedup_revision),
        contamination_audit_revision=stated(config.contamination_audit_revision),
    )
