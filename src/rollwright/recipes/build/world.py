"""Everything that a run stands on before a token is drawn: tasks, environment, verifiers, rendering, protocol."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from rollwright.environments import EnvironmentSetupError, McpEnvironment
from rollwright.recipes.build.environment import build_environment, demonstrating
from rollwright.recipes.build.tasks import build_mixture
from rollwright.recipes.build.verifiers import BuiltVerifiers, answer_form, build_verifiers
from rollwright.recipes.config.evaluation import ProtocolConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.world import EnvironmentConfig, McpEnvironmentConfig, WorldEnvironmentConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.worlds.table import ADAPTED, load_world
from rollwright.recipes.worlds.world import World
from rollwright.record import Environment, Message
from rollwright.tasks import Mixture

__all__ = ["BuiltWorld", "Opening", "build_world", "first_opening", "refuse_undemonstrated"]

_OPENING_S = 60.0
"""How long an environment may take to open once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltWorld:
    """What is to be solved, where, and who judges."""

    mixture: Mixture
    environment: Environment
    verifiers: BuiltVerifiers
    world: World | None
    """Where the environment came from, if it was a world."""
    golds: tuple[BuiltVerifiers | None, ...] = (None,)
    """The second verifier of each protocol, in the recipe's order; None where it names none."""

    @property
    def sandbox_profile(self) -> str | None:
        """What the episodes' programs run in, where they run programs."""
        return None if self.world is None else self.world.sandbox_profile

    @property
    def max_open(self) -> int | None:
        """Episodes that can be open at once; None: no bound is known."""
        return None if self.world is None else self.world.max_open

    @property
    def spoken(self) -> tuple[str, ...]:
        """Phrases of its observations, for a tokenizer that is trained on the spot."""
        return () if self.world is None else self.world.spoken

    def close(self) -> None:
        """End the processes of verifiers and sandboxes."""
        self.verifiers.close()
        for gold in self.golds:
            if gold is not None:
                gold.close()
        if isinstance(self.environment, McpEnvironment):
            self.environment.close()
        if self.world is not None:
            self.world.close()


def build_world(recipe: RecipeConfig) -> BuiltWorld:
    """Build what needs no model. What it started is ended again where a later part is refused."""
    with ExitStack() as stack:
        world: World | None = None
        match recipe.environment:
            case WorldEnvironmentConfig():
                world = load_world(recipe.environment.name, recipe.environment.arguments)
                stack.callback(world.close)
                environment = world.environment
            case _:
                environment = build_environment(recipe.environment, answer_form=answer_form(recipe.verifier))
                if isinstance(environment, McpEnvironment):
                    stack.callback(environment.close)
        mixture = build_mixture(recipe.tasks, seed=recipe.run.seed, world=world)
        _refuse_other_sources(recipe, mixture)
        verifiers = build_verifiers(recipe.verifier, world)
        stack.callback(verifiers.close)
        golds = tuple(_gold(one, recipe, stack) for one in (recipe.evaluation, *recipe.evaluation.also))
        stack.pop_all()
    return BuiltWorld(mixture=mixture, environment=environment, verifiers=verifiers, world=world, golds=golds)


def _gold(config: ProtocolConfig, recipe: RecipeConfig, stack: ExitStack) -> BuiltVerifiers | None:
    if not config.gold:
        return None
    parts = tuple(part.model_copy(update={"weight": 1.0}) for part in config.gold)
    gold = build_verifiers(recipe.verifier.model_copy(update={"parts": parts}))
    stack.callback(gold.close)
    return gold


def _refuse_other_sources(recipe: RecipeConfig, mixture: Mixture) -> None:
    """A balance of sources names those that the tasks come from, else a step would find out."""
    named = set(recipe.objective.source_targets)
    sources = {task.source for stratum in mixture.strata for task in stratum.train}
    if named and named != sources:
        raise RecipeError(
            f"objective.source_targets names {', '.join(sorted(named))}, but the tasks come from "
            f"{', '.join(sorted(sources))}; give each of these its share, 0 to train nothing of it, and no other."
        )


def refuse_undemonstrated(recipe: RecipeConfig, world: BuiltWorld) -> None:
    """Refuse a supervised stage where there is nothing to show, before a model is made or a folder written.

    Raises:
        RecipeError: naming the stage, what is missing, and both ways out.
    """
    stage = next((stage for stage in recipe.stages if stage.kind == "supervised"), None)
    if stage is None:
        return
    task = world.mixture.strata[0].train[0]
    try:
        demonstrating(world.environment).demonstrate(task, recipe.run.seed)
    except (EnvironmentSetupError, RecipeError) as error:
        kept = ", ".join(f'{{kind="{s.kind}", name="{s.name}"}}' for s in recipe.stages if s.kind != "supervised")
        leave_out = f" Or leave the stage out: --set 'stages=[{kept}]'." if kept else ""
        raise RecipeError(
            f"the supervised stage {stage.name!r} plays demonstrations, and there are none: {str(error).rstrip('.')}. "
            f"{_how_to_demonstrate(recipe.environment)}{leave_out}"
        ) from error


def _how_to_demonstrate(config: EnvironmentConfig) -> str:
    match config:
        case WorldEnvironmentConfig() if config.name in ADAPTED:
            return (
                "Bring a function of (task, seed) that solves it: "
                "--set environment.arguments.reference=package.module:function."
            )
        case WorldEnvironmentConfig():
            return "Where the world is made, hand its environment `demonstrate=reference`, as the world has it."
        case McpEnvironmentConfig():
            return "Bring a function of (task, seed): --set environment.demonstrate=package.module:function."
        case _:
            return "Where the environment is made, give it demonstrate(task, seed), which returns the turns."


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What an episode begins with."""

    tools: Mapping[str, str]
    messages: tuple[Message, ...]


async def first_opening(world: BuiltWorld) -> Opening:
    """What the first training task opens with; the tools are fixed for an environment.

    Raises:
        RecipeError: when the environment does not open.
    """
    task = world.mixture.strata[0].train[0]
    try:
        async with asyncio.timeout(_OPENING_S), world.environment.open(task, seed=0) as episode:
            began = await episode.begin()
            return Opening(
                tools=dict(episode.tools),
                messages=began.observations[0].messages if began.observations else (),
            )
    except Exception as error:  # noqa: BLE001 - an environment from outside may raise anything
        raise RecipeError(
            f"environment {world.environment.name} does not open task {task.task_id}: {type(error).__name__}: {error}. "
            "Mend it before a run is made."
        ) from error
