"""From the recipe's stages to the loop's."""

from dataclasses import dataclass, replace
from functools import partial

from rollwright.recipes.build.environment import demonstrating
from rollwright.recipes.build.episodes import Episodes
from rollwright.recipes.build.learner import StagedLearner, stage_settings
from rollwright.recipes.build.replay import Replay
from rollwright.recipes.build.stored import StoredBatches
from rollwright.recipes.build.terms import stage_terms
from rollwright.recipes.config.learning import RlStageConfig, StageConfig, SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Environment, seed_of
from rollwright.runtime.admission import AdmissionRule
from rollwright.runtime.breaker import Breaker
from rollwright.runtime.buffer import RefillRule
from rollwright.runtime.demonstrations import DemonstrationCollector, StoredCollector
from rollwright.runtime.dispatcher import Dispatcher, DispatchRules
from rollwright.runtime.guarded import held
from rollwright.runtime.ledger import Ledger
from rollwright.runtime.loop_parts import Stage
from rollwright.runtime.pacing import GaugedEngine, Pace, PaceRule
from rollwright.runtime.parts import Collector, GroupCounter, LegFn
from rollwright.runtime.replaying import ReplayCollector, StoredSteps
from rollwright.runtime.schedule import ScheduledEngine
from rollwright.tasks import Mixture, TaskOrder

__all__ = ["StageParts", "build_stages"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageParts:
    """What the stages of a run share."""

    recipe: RecipeConfig
    mixture: Mixture
    episodes: Episodes
    environment: Environment
    """Of the episodes, with nothing before it: it may demonstrate."""
    breakers: tuple[Breaker, ...]
    """Before what episodes and verdicts need."""
    places: int
    """Episodes that may run at once."""
    learner: StagedLearner
    counter: GroupCounter
    ledger: Ledger
    stored: StoredBatches | None
    """Learned from instead of sampling."""
    replay: Replay | None = None
    """Followed while sampling."""
    schedule: ScheduledEngine | None = None
    """The engine that keeps to the replay's schedule."""


def build_stages(parts: StageParts) -> tuple[Stage, ...]:
    """The stages in order, as far as a stored run goes where one is learned from or followed."""
    stages = tuple(_stage(stage, parts) for stage in parts.recipe.stages)
    followed = parts.stored or parts.replay
    if followed is None:
        return stages
    kept: list[Stage] = []
    left = followed.steps
    for stage in stages:
        if left:
            kept.append(replace(stage, steps=min(stage.steps, left)))
            left -= kept[-1].steps
    return tuple(kept)


def _stage(stage: StageConfig, parts: StageParts) -> Stage:
    recipe = parts.recipe
    terms = stage_terms(stage, recipe)
    is_supervised = isinstance(stage, SupervisedStageConfig)
    settings = stage_settings(stage, recipe)
    reads = terms.objective.reads
    every = 0 if is_supervised or "reference" in reads else recipe.evidence.reference_every
    return Stage(
        name=stage.name,
        kind="supervised" if is_supervised else "rl",
        steps=stage.steps if is_supervised else recipe.run.steps,
        objective=terms.objective,
        eligible=terms.eligible,
        rules=terms.rules,
        collector=partial(_collector, stage, parts),
        begin=partial(parts.learner.begin, settings, reads=reads | {"reference"} if every else reads),
        evaluate_every=0 if is_supervised else recipe.evaluation.every,
        reference_every=every,
    )


def _collector(stage: StageConfig, parts: StageParts, first_version: int) -> Collector:
    if parts.stored is not None:
        return StoredCollector(read=parts.stored.read, counter=parts.counter, ledger=parts.ledger)
    recipe = parts.recipe
    order = TaskOrder(parts.mixture, seed=seed_of(recipe.run.seed, "order", stage.name))
    if isinstance(stage, SupervisedStageConfig):
        environment = demonstrating(parts.environment)
        return DemonstrationCollector(
            stage=stage.name,
            batch_size=stage.batch_size,
            order=order,
            counter=parts.counter,
            run_episode=lambda attempt: parts.episodes.demonstrate(attempt, environment),
        )
    if parts.replay is not None and parts.schedule is not None:
        return ReplayCollector(
            StoredSteps(stage=stage.name, groups=parts.replay.groups),
            engine=parts.schedule,
            ledger=parts.ledger,
            run_episode=parts.episodes.train,
            score=parts.episodes.score,
        )
    return Dispatcher(
        _dispatch_rules(stage, recipe, places=parts.places, first_version=first_version),
        order=order,
        counter=parts.counter,
        ledger=parts.ledger,
        run_episode=held(parts.breakers, _paced(parts)),
        score=parts.episodes.score,
    )


def _paced(parts: StageParts) -> LegFn:
    """Episodes, fewer at once where the recipe lets what the engine holds decide."""
    least = parts.recipe.runtime.least_concurrency
    if least == 0:
        return parts.episodes.train
    gauge = GaugedEngine(parts.episodes.engine)
    pace = Pace(PaceRule(least=min(least, parts.places), most=parts.places), gauge)
    return pace.over(replace(parts.episodes, engine=gauge).train)


def _dispatch_rules(stage: RlStageConfig, recipe: RecipeConfig, *, places: int, first_version: int) -> DispatchRules:
    rollout, runtime = recipe.rollout, recipe.runtime
    return DispatchRules(
        stage=stage.name,
        admission=AdmissionRule(
            batch_slots=rollout.batch_size,
            group_size=rollout.group_size,
            max_lag=runtime.max_lag,
            extra_slots=runtime.oversample * rollout.group_size,
            max_steps=recipe.run.steps,
        ),
        max_attempts=rollout.max_attempts,
        concurrency=places,
        incomplete=rollout.incomplete_groups,
        first_version=first_version,
        max_resumptions=rollout.max_resumptions if rollout.truncation == "resume" else 0,
        min_fraction=rollout.min_group_fraction,
        over_lag=runtime.over_lag,
        mixture=runtime.mixture,
        refill=RefillRule(most_extra=rollout.max_extra_groups, at_cap=rollout.at_cap)
        if rollout.dynamic_sampling
        else None,
        stragglers=runtime.stragglers if runtime.oversample else "wait",
        success_at=recipe.verifier.success_threshold,
    )
