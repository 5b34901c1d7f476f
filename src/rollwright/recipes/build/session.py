"""The parts of one run, joined: what `train`, `resume` and `eval` have in common."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rollwright.evaluation import Evaluation, EvaluationProtocol, Harness, counted, evaluate
from rollwright.evidence import RunFolder
from rollwright.recipes.build.alarms import build_alarms
from rollwright.recipes.build.engine import build_engine, served_rule
from rollwright.recipes.build.episodes import Episodes
from rollwright.recipes.build.gates import gate_judge
from rollwright.recipes.build.guarding import guard_world
from rollwright.recipes.build.learner import StagedLearner, stage_settings
from rollwright.recipes.build.machine import role_threads
from rollwright.recipes.build.placement import make_shelf, refuse_absent_devices
from rollwright.recipes.build.protocols import Baselines, answer_reader, build_protocols, joined, with_gold
from rollwright.recipes.build.replay import Replay
from rollwright.recipes.build.stages import StageParts, build_stages
from rollwright.recipes.build.stored import StoredBatches
from rollwright.recipes.build.verifiers import BuiltVerifiers
from rollwright.recipes.build.world import BuiltWorld, first_opening
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Engine
from rollwright.rendering import Renderer, load_renderer
from rollwright.rollout import SystemClock
from rollwright.runtime.admission import EpisodeRoom
from rollwright.runtime.alarms import AlarmWatch
from rollwright.runtime.breaker import Breaker, BreakerRules
from rollwright.runtime.ledger import Ledger, LedgerBalance
from rollwright.runtime.loop_parts import LoopParts
from rollwright.runtime.metered import MeteredEngine
from rollwright.runtime.observers import EvaluationProgress, Observer
from rollwright.runtime.own_thread import OwnThread
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.probes import EngineProbe, ProbeRule, fixed_contexts
from rollwright.runtime.prompt_metrics import PromptWatch
from rollwright.runtime.replaying import FixedCounter
from rollwright.runtime.restarting import RestartingEngine, RestartRules
from rollwright.runtime.saving import CheckpointRule
from rollwright.runtime.schedule import ScheduledEngine
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.timebook import TimeBook
from rollwright.runtime.watchdog import Watchdog, WatchRules
from rollwright.runtime.weights import PublicationRule, WeightChannel, WeightShelf

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "EvaluationPlan",
    "Foundation",
    "LoopOrder",
    "episode_room",
    "lay_foundation",
    "loop_parts",
    "make_episodes",
    "open_engine",
    "run_evaluation",
    "unwatched",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What a run stands on, with its model."""

    recipe: RecipeConfig
    world: BuiltWorld
    renderer: Renderer
    rendering_revision: str
    protocols: tuple[EvaluationProtocol, ...]
    """The run's own first, then those beside it."""
    model: "PreTrainedModel"

    @property
    def protocol(self) -> EvaluationProtocol:
        """The run's own."""
        return self.protocols[0]

    @property
    def evaluation_groups(self) -> int:
        """Groups that one evaluation under all protocols takes."""
        return sum(len(protocol.tasks) for protocol in self.protocols)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopOrder:
    """How a loop over a foundation is to be run."""

    folder: RunFolder
    observer: Observer
    shutdown: Shutdown
    version: int
    """The step after which the foundation's weights stood."""
    first_group: int
    balance: LedgerBalance | None
    stored: StoredBatches | None
    replay: Replay | None
    """The stored run whose schedule is followed."""
    watch: Callable[[Engine], Engine]
    """Puts something between engine and driver, such as a recorder; `unwatched` puts nothing."""
    watch_rules: WatchRules | None = None
    """Who may take how long; None: as the recipe says, like the rules of restarts."""
    restart_rules: RestartRules | None = None
    alarms: AlarmWatch | None = None
    """With what it has seen of a run that goes on; None: as the recipe says, and nothing seen."""


def lay_foundation(
    recipe: RecipeConfig, world: BuiltWorld, tokenizer: Path, make_model: "Callable[[], PreTrainedModel]"
) -> Foundation:
    """Load the renderer, make the model, and fix the protocol.

    Args:
        recipe: as resolved.
        world: built from it.
        tokenizer: its folder.
        make_model: gives the weights to start from.

    Raises:
        RecipeError: where engine or learner is to be on a device that torch cannot use here.
    """
    refuse_absent_devices(recipe)
    from rollwright.learner.machine import set_threads, spare_imported_objects

    set_threads(max(role_threads(recipe.runtime).values()))
    renderer = load_renderer(tokenizer)
    opening = asyncio.run(first_opening(world))
    revision = renderer.revision(opening.tools)
    if opening.messages:
        # A template that refuses such a conversation says so here, not in the first episode of a run.
        renderer.open(opening.messages, opening.tools)
    model = make_model()
    spare_imported_objects()
    return Foundation(
        recipe=recipe,
        world=world,
        renderer=renderer,
        rendering_revision=revision,
        protocols=build_protocols(recipe, world, revision),
        model=model,
    )


def unwatched(engine: Engine) -> Engine:
    """The engine itself."""
    return engine


def open_engine(foundation: Foundation, shelf: WeightShelf, *, version: int) -> Engine:
    """An engine that serves the model's weights as `version` until others are published."""
    return build_engine(foundation.recipe, foundation.model, shelf.read, version=version)


def episode_room(recipe: RecipeConfig, world: BuiltWorld, engine: Engine) -> EpisodeRoom:
    """How many episodes run at once, by what the recipe, the engine and the world allow."""
    return EpisodeRoom(
        asked=recipe.runtime.concurrency,
        engine_slots=engine.capabilities.num_slots,
        contexts=max(1, len(world.environment.actors)),
        environment=world.max_open,
    )


def make_episodes(foundation: Foundation, engine: Engine) -> Episodes:
    """What runs and scores the episodes of this run, with a time book of its own."""
    return Episodes(
        recipe=foundation.recipe,
        engine=engine,
        environment=foundation.world.environment,
        renderer=foundation.renderer,
        composition=foundation.world.verifiers.composition,
        sandbox_profile=foundation.world.sandbox_profile,
        clock=SystemClock(),
        book=TimeBook(time.monotonic, time.thread_time),
        places=asyncio.Semaphore(episode_room(foundation.recipe, foundation.world, engine).places),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPlan:
    """What evaluations of a run share."""

    episodes: Episodes
    counter: GroupCounter
    baselines: Baselines
    observer: Observer


async def run_evaluation(foundation: Foundation, plan: EvaluationPlan, step: int) -> Evaluation:
    """Run the protocols, one after the other, with the weights that serve."""
    total = sum(len(one.tasks) * one.samples for one in foundation.protocols)
    before = 0
    parts: list[Evaluation] = []
    for protocol, gold in zip(foundation.protocols, foundation.world.golds, strict=True):
        harness = _harness(foundation, plan, protocol, gold)

        def tell(done: int, of_protocol: int, before: int = before) -> None:
            if done or not before:
                plan.observer.evaluating(EvaluationProgress(step=step, num_done=before + done, num_episodes=total))

        counting = counted(harness.run_episode, protocol, tell)
        baseline = plan.baselines.of(protocol, step)
        evaluation = await evaluate(protocol, replace(harness, run_episode=counting, baseline=baseline), step=step)
        plan.baselines.note(protocol, evaluation, step)
        parts.append(evaluation)
        before += len(protocol.tasks) * protocol.samples
    return joined(parts)


def _harness(
    foundation: Foundation, plan: EvaluationPlan, protocol: EvaluationProtocol, gold: BuiltVerifiers | None
) -> Harness:
    episodes = plan.episodes
    return Harness(
        take_group=plan.counter.take,
        run_episode=lambda attempt: episodes.evaluate(protocol, attempt),
        score=with_gold(episodes.score, gold, foundation.renderer),
        now=episodes.clock.now,
        read_answer=answer_reader(foundation.recipe, foundation.renderer),
    )


def _restarting(foundation: Foundation, order: LoopOrder, shelf: WeightShelf, watchdog: Watchdog) -> RestartingEngine:
    """An engine that is made again where it dies, hangs or keeps old weights."""

    def opened(version: int) -> Engine:
        return order.watch(open_engine(foundation, shelf, version=version))

    rules = order.restart_rules or RestartRules(silent_s=foundation.recipe.runtime.engine_silent_s)
    return RestartingEngine(opened(order.version), opened, rules, watchdog, version=order.version)


def _probe(foundation: Foundation, learner: StagedLearner, engine: Engine, thread: Executor) -> EngineProbe | None:
    runtime = foundation.recipe.runtime
    served = foundation.recipe.engine.kind != "embedded"
    auto = "stop" if served else "warn" if runtime.max_lag else "off"
    on_breach = auto if runtime.probe == "auto" else runtime.probe
    if on_breach == "off":
        return None
    contexts = fixed_contexts(foundation.model.config.vocab_size)
    rule = served_rule(foundation.recipe, on_breach) if served else ProbeRule(on_breach=on_breach)
    return EngineProbe(engine, learner.score_contexts, thread, contexts, rule=rule)


def loop_parts(foundation: Foundation, order: LoopOrder, stack: ExitStack) -> tuple[LoopParts, StagedLearner, Engine]:
    """Join engine, learner and stages; threads end with `stack`, the engine is the caller's to close.

    Args:
        foundation: of the run.
        order: how it is to be run.
        stack: what it opens is closed with.
    """
    recipe = foundation.recipe
    shelf = make_shelf(recipe)
    watchdog = Watchdog(
        order.watch_rules or WatchRules(run_s=recipe.runtime.stall_s), SystemClock(), order.observer.warned
    )
    engine = _restarting(foundation, order, shelf, watchdog)
    learner = StagedLearner(foundation.model, stage_settings(recipe.stages[0], recipe), recipe.learner.device)
    thread = stack.enter_context(OwnThread("learner"))
    staged = _staged(foundation, order, learner, engine, watchdog)
    episodes, counter = staged.episodes, staged.counter
    probe = _probe(foundation, learner, episodes.engine, thread)
    if probe is not None and probe.stops:
        engine.try_each(probe.fault_of)
    plan = EvaluationPlan(
        episodes=episodes,
        counter=counter,
        baselines=Baselines(recipe, order.folder),
        observer=order.observer,
    )
    rule = PublicationRule(swap=recipe.runtime.swap, tolerated_refusals=recipe.runtime.tolerated_refusals)
    parts = LoopParts(
        folder=order.folder,
        stages=build_stages(staged),
        learner=learner,
        learner_thread=thread,
        channel=WeightChannel(learner, episodes.engine, shelf, thread, rule=rule, warn=order.observer.warned),
        probe=probe,
        watchdog=watchdog,
        book=episodes.book,
        counter=counter,
        ledger=staged.ledger,
        evaluate=lambda step: run_evaluation(foundation, plan, step),
        checkpoints=_checkpoint_rule(recipe),
        observer=order.observer,
        shutdown=order.shutdown,
        now=episodes.clock.now,
        success_threshold=recipe.verifier.success_threshold,
        graders=frozenset(p.verifier.name for p in episodes.composition.parts if p.role == "outcome"),
        prompts=PromptWatch([t for one in foundation.protocols if one.split == "held_out" for t in one.tasks]),
        alarms=order.alarms or _alarms(recipe, order),
        judge=gate_judge(order.folder),
    )
    return parts, learner, engine


def _staged(
    foundation: Foundation, order: LoopOrder, learner: StagedLearner, engine: Engine, watchdog: Watchdog
) -> StageParts:
    """What the stages share: episodes over the engine, kept to a schedule where one is followed."""
    recipe = foundation.recipe
    scheduled = None
    if order.replay is not None:
        scheduled = ScheduledEngine(engine, order.replay.schedule, version=order.version)
    episodes, breakers = _guarded_episodes(foundation, order, scheduled or engine, watchdog)
    room = episode_room(recipe, foundation.world, engine)
    if room.warning is not None:
        order.observer.warned(room.warning)
    return StageParts(
        recipe=recipe,
        mixture=foundation.world.mixture,
        episodes=episodes,
        environment=foundation.world.environment,
        breakers=breakers,
        places=room.places,
        learner=learner,
        counter=GroupCounter(order.first_group) if order.replay is None else FixedCounter(order.replay.other_ids),
        ledger=Ledger(episodes.clock.now, order.balance),
        stored=order.stored,
        replay=order.replay,
        schedule=scheduled,
    )


def _guarded_episodes(
    foundation: Foundation, order: LoopOrder, engine: Engine, watchdog: Watchdog
) -> tuple[Episodes, tuple[Breaker, ...]]:
    """Episodes whose engine is metered, with breakers before what is asked of others."""
    tell = order.observer.warned
    guarded = guard_world(foundation.world, foundation.recipe, SystemClock(), tell, BreakerRules())
    for breaker in guarded.breakers:
        watchdog.explain(breaker.explain)
    episodes = make_episodes(foundation, engine)
    episodes = replace(
        episodes,
        engine=MeteredEngine(engine, episodes.book),
        environment=guarded.environment,
        composition=guarded.verifiers.composition,
    )
    return episodes, guarded.breakers


def _alarms(recipe: RecipeConfig, order: LoopOrder) -> AlarmWatch:
    """As the recipe says; a replay, which is not gone on with, is told of them and never paused."""
    rules = build_alarms(recipe)
    return AlarmWatch(rules if order.replay is None else [replace(rule, action="warn") for rule in rules])


def _checkpoint_rule(recipe: RecipeConfig) -> CheckpointRule:
    runtime = recipe.runtime
    return CheckpointRule(every=runtime.checkpoint_every, keep=runtime.keep_checkpoints, keep_every=runtime.keep_every)
