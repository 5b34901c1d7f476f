"""Breakers before what a run asks of others: judges, and the servers of environments."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from rollwright.environments import McpEnvironment
from rollwright.recipes.build.judges import AnyJudgeConfig
from rollwright.recipes.build.verifiers import BuiltVerifiers
from rollwright.recipes.build.world import BuiltWorld
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.world import WorldVerifierConfig
from rollwright.record import Environment
from rollwright.rollout import Clock
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.runtime.guarded import GuardedEnvironment, GuardedVerifier
from rollwright.verifiers import Composition, Part

__all__ = ["Guarded", "guard_world"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """What episodes are run and scored with, and the breakers before it."""

    environment: Environment
    verifiers: BuiltVerifiers
    breakers: tuple[Breaker, ...]


def guard_world(
    world: BuiltWorld, recipe: RecipeConfig, clock: Clock, tell: Callable[[str], None], rules: BreakerRules
) -> Guarded:
    """Put a breaker before each judge, and before an environment that is a server.

    What runs in this process, or in processes that it starts itself, has none: it is there or made again.

    Args:
        world: as built; what must be closed stays the caller's to close.
        recipe: that it was built from.
        clock: for durations.
        tell: shows a sentence to a person.
        rules: of every breaker.
    """
    breakers: list[Breaker] = []

    def breaker(name: str) -> Breaker:
        breakers.append(Breaker(name, rules, clock, tell))
        return breakers[-1]

    are_judges = _are_judges(world, recipe)
    parts = [
        _guarded(part, breaker, rules) if is_judge else part
        for part, is_judge in zip(world.verifiers.composition.parts, are_judges, strict=True)
    ]
    environment: Environment = world.environment
    if isinstance(environment, McpEnvironment) or (world.world is not None and world.world.server):
        environment = GuardedEnvironment(environment, breaker(f"environment {environment.name}"))
    return Guarded(
        environment=environment,
        verifiers=BuiltVerifiers(Composition(parts), ExitStack()) if any(are_judges) else world.verifiers,
        breakers=tuple(breakers),
    )


def _are_judges(world: BuiltWorld, recipe: RecipeConfig) -> list[bool]:
    """For each part of the composition; one of kind `world` stands for all of the world's."""
    found: list[bool] = []
    for part in recipe.verifier.parts:
        if isinstance(part, WorldVerifierConfig):
            found += [False] * (0 if world.world is None else len(world.world.parts))
        else:
            found.append(isinstance(part, AnyJudgeConfig))
    return found


def _guarded(part: Part, breaker: Callable[[str], Breaker], rules: BreakerRules) -> Part:
    verifier = GuardedVerifier(part.verifier, breaker(f"verifier {part.verifier.name}"), patience_s=rules.patience_s)
    return replace(part, verifier=verifier)
