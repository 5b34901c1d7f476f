"""Whole runs: train, resume, train again from a stored run, sample only, evaluate."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rollwright.evaluation import Evaluation
from rollwright.evidence import (
    Checkpoint,
    CommitRows,
    Event,
    Manifest,
    RunFolder,
    StoredRun,
    content_hash,
    manifest_differences,
)
from rollwright.recipes.build.learner import StagedLearner
from rollwright.recipes.build.manifest import ManifestFacts, build_manifest
from rollwright.recipes.build.model import ModelSource, build_model, build_tokenizer
from rollwright.recipes.build.session import (
    Foundation,
    LoopOrder,
    lay_foundation,
    loop_parts,
    make_episodes,
    open_engine,
    run_evaluation,
    unwatched,
)
from rollwright.recipes.build.stored import StoredBatches, stored_batches
from rollwright.recipes.build.world import World, build_world
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, recipe_toml, resolve_text
from rollwright.record import Engine, digest
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.collecting import collect_only
from rollwright.runtime.loop import Loop, LoopParts, RunResult
from rollwright.runtime.observers import Observer, RunStarted
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.progress import EvaluationPoint, Progress
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.weights import WeightShelf

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = [
    "EvaluationOrder",
    "TrainOrder",
    "TrainResult",
    "evaluate_run",
    "resume_run",
    "stored_recipe",
    "train_run",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOrder:
    """What `train` was asked for."""

    resolved: Resolved
    run_dir: Path | None
    """None: a new folder below `runs`."""
    source: Path | None
    """A stored run whose episodes are learned from again."""
    is_rollouts_only: bool
    watch: Callable[[Engine], Engine] = unwatched
    """Puts something between engine and driver, such as a recorder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationOrder:
    """What `eval` was asked for; None takes the run's own."""

    run: Path
    step: int | None
    tasks: int | None
    samples: int | None
    temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """What a command came to."""

    run_dir: str
    steps: int
    seconds: float
    before: EvaluationPoint | None
    after: EvaluationPoint | None
    max_mismatch: float | None
    num_action_tokens: int
    num_episodes: int
    content_hash: str


def train_run(order: TrainOrder, observer: Observer) -> TrainResult:
    """Start a run and go to its end.

    Raises:
        RecipeError: for what cannot be run as asked.
        RunStoppedError: when the user stopped it; what was saved stays.
    """
    resolved = order.resolved
    path = order.run_dir or _free_folder(resolved.recipe)
    if (path / "manifest.json").exists():
        raise RecipeError(f"{path} already holds a run; `rollwright resume {path}` goes on with it, or choose another.")
    source = None if order.source is None else StoredRun(order.source)
    stored = None if source is None else stored_batches(resolved.recipe, source, observer)
    with ExitStack() as stack:
        world = build_world(resolved.recipe)
        stack.callback(world.verifiers.close)
        if source is None:
            tokenizer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollwright-tokenizer-")))
            build_tokenizer(_origin(resolved.recipe, world), tokenizer)
        else:
            tokenizer = source.folder.tokenizer
        foundation = lay_foundation(
            resolved.recipe, world, tokenizer, lambda: _first_weights(resolved.recipe, world, tokenizer, source)
        )
        manifest = _manifest(resolved, foundation, tokenizer, _Identity.new(path, source, foundation.model))
        folder = stack.enter_context(
            RunFolder.create(path, manifest, recipe_toml(resolved.recipe), tokenizer=tokenizer)
        )
        if source is not None:
            folder.record_event(
                _event(_SOURCE, "learns from the episodes of a stored run", path=str(source.folder.path.resolve()))
            )
        loop_order = LoopOrder(
            folder=folder,
            observer=observer,
            shutdown=Shutdown(observer.warned),
            version=0,
            first_group=0,
            balance=None,
            stored=stored,
            watch=order.watch,
        )
        observer.run_started(_started(foundation, folder, None, stored))
        for reason in foundation.renderer.report.reasons:
            observer.warned(f"chat template: {reason}")
        if order.is_rollouts_only:
            collect = partial(collect_only, evaluation_groups=len(foundation.protocol.tasks))
            return _finish(foundation, loop_order, stack, _Start(checkpoint=None, progress=None), collect)
        return _finish(foundation, loop_order, stack, _Start(checkpoint=None, progress=None), None)


def resume_run(path: Path, observer: Observer) -> TrainResult:
    """Go on from the newest complete checkpoint; what came later never happened.

    Raises:
        EvidenceError: when the folder is no run, is of another schema, or is being written.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.open(path, "write"))
        resolved = resolve_text(folder.recipe_toml, origin=f"run {path.name}")
        choice = folder.newest_checkpoint()
        for refused in choice.refused:
            observer.warned(f"checkpoint {refused.name} does not count: {refused.reason}")
        chosen = choice.chosen
        progress = None if chosen is None else read_progress(chosen)
        world = build_world(resolved.recipe)
        stack.callback(world.verifiers.close)
        source = _source_of(folder)
        stored = None if source is None else stored_batches(resolved.recipe, source, observer)
        foundation = lay_foundation(
            resolved.recipe,
            world,
            folder.tokenizer,
            lambda: (
                _first_weights(resolved.recipe, world, folder.tokenizer, source)
                if chosen is None
                else _weights_of(chosen)
            ),
        )
        now = _manifest(resolved, foundation, folder.tokenizer, _Identity.of(folder.manifest))
        _compare_conditions(folder, now, observer)
        abandoned = folder.abandon_after(0 if chosen is None else chosen.commit)
        if abandoned:
            observer.warned(
                f"{len(abandoned)} commits behind the checkpoint never happened; their steps are done again"
            )
        folder.record_event(_event("resumed", "went on from a checkpoint", step=progress.step if progress else 0))
        order = LoopOrder(
            folder=folder,
            observer=observer,
            shutdown=Shutdown(observer.warned),
            version=0 if progress is None else progress.step,
            first_group=0 if progress is None else progress.next_group,
            balance=None if progress is None else progress.balance,
            stored=stored,
            watch=unwatched,
        )
        observer.run_started(_started(foundation, folder, 0 if progress is None else progress.step, stored))
        return _finish(foundation, order, stack, _Start(checkpoint=chosen, progress=progress), None)


def evaluate_run(order: EvaluationOrder, observer: Observer) -> Evaluation:
    """Evaluate a checkpoint on held-out tasks and commit the result to the run.

    Raises:
        RecipeError: when there is no such checkpoint.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.open(order.run, "write"))
        checkpoint = _checkpoint_at(folder, order.step)
        recipe = _asked(resolve_text(folder.recipe_toml, origin=f"run {order.run.name}").recipe, order)
        world = build_world(recipe)
        stack.callback(world.verifiers.close)
        foundation = lay_foundation(recipe, world, folder.tokenizer, lambda: _weights_of(checkpoint))
        observer.run_started(_started(foundation, folder, checkpoint.step, None))

        async def go() -> Evaluation:
            engine = open_engine(foundation, WeightShelf(), version=checkpoint.step)
            try:
                counter = GroupCounter(folder.first_group_id)
                return await run_evaluation(foundation, make_episodes(foundation, engine), counter, checkpoint.step)
            finally:
                await engine.close()

        evaluation = asyncio.run(go())
        rows = CommitRows(
            kind="evaluation",
            step=checkpoint.step,
            trajectories=evaluation.trajectories,
            evaluations=evaluation.rows,
        )
        folder.commit(rows, at=datetime.now(UTC))
        return evaluation


def stored_recipe(run: Path, settings: Sequence[str]) -> Resolved:
    """The recipe of a stored run, with settings on top."""
    folder = RunFolder.open(run)
    return resolve_text(folder.recipe_toml, origin=f"run {run.name}", settings=settings)


_SOURCE = "source"
"""The event that names the stored run that this one learns from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    checkpoint: Checkpoint | None
    progress: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Identity:
    """What a manifest says of the run itself; on resume it is what it was."""

    run_id: str
    created_at: datetime
    source_run_id: str | None
    initial_weights_sha256: str

    @classmethod
    def new(cls, path: Path, source: StoredRun | None, model: "PreTrainedModel") -> "_Identity":
        from rollwright.learner.state import named_weights, tensor_specs

        created_at = datetime.now(UTC)
        specs = tensor_specs(named_weights(model))
        return cls(
            run_id=f"{path.name}-{digest([str(path.resolve()), created_at.isoformat()])[:8]}",
            created_at=created_at,
            source_run_id=None if source is None else source.folder.manifest.run.run_id,
            initial_weights_sha256=digest([[s.name, s.dtype, list(s.shape), s.sha256] for s in specs]),
        )

    @classmethod
    def of(cls, manifest: Manifest) -> "_Identity":
        return cls(
            run_id=manifest.run.run_id,
            created_at=manifest.run.created_at,
            source_run_id=manifest.run.source_run_id,
            initial_weights_sha256=manifest.model.initial_weights_sha256,
        )


def _finish(
    foundation: Foundation,
    order: LoopOrder,
    stack: ExitStack,
    start: _Start,
    instead: Callable[[LoopParts], Awaitable[RunResult]] | None,
) -> TrainResult:
    """Run the loop, or what was asked for instead, and close what it opened."""

    async def go() -> RunResult:
        parts, learner, engine = loop_parts(foundation, order, stack)
        undo = order.shutdown.listen()
        try:
            if start.checkpoint is not None and start.progress is not None:
                parts.learner_thread.submit(_restore, parts, learner, start.progress, start.checkpoint.path).result()
            return await (instead(parts) if instead is not None else Loop(parts, start.progress).run())
        finally:
            undo()
            await engine.close()

    result = asyncio.run(go())
    return TrainResult(
        run_dir=str(order.folder.path),
        steps=result.steps,
        seconds=result.seconds,
        before=result.before,
        after=result.after,
        max_mismatch=result.max_mismatch,
        num_action_tokens=result.num_action_tokens,
        num_episodes=result.num_episodes,
        content_hash=content_hash(order.folder.path),
    )


def _restore(parts: LoopParts, learner: StagedLearner, progress: Progress, folder: Path) -> None:
    parts.stages[min(progress.stage, len(parts.stages) - 1)].begin()
    learner.restore(folder)


def _origin(recipe: RecipeConfig, world: World) -> ModelSource:
    return ModelSource(
        config=recipe.model,
        seed=recipe.run.seed,
        environment=world.environment,
        tasks=[task for stratum in world.mixture.strata for task in stratum.train],
    )


def _first_weights(recipe: RecipeConfig, world: World, tokenizer: Path, source: StoredRun | None) -> "PreTrainedModel":
    """The weights before the first step: made from the recipe, or those that the source began with."""
    if source is None:
        return build_model(_origin(recipe, world), tokenizer)
    return _weights_of(_checkpoint_at(source.folder, 0))


def _weights_of(checkpoint: Checkpoint) -> "PreTrainedModel":
    from rollwright.learner.models import load_causal_lm

    return load_causal_lm(checkpoint.path)


def _checkpoint_at(folder: RunFolder, step: int | None) -> Checkpoint:
    found = [c for c in folder.checkpoints() if isinstance(c, Checkpoint)]
    if step is None:
        newest = folder.newest_checkpoint().chosen
        if newest is not None:
            return newest
    for checkpoint in found:
        if checkpoint.step == step:
            return checkpoint
    steps = ", ".join(str(c.step) for c in found) or "none"
    raise RecipeError(f"{folder.path} has no checkpoint of step {step}; it has {steps}.")


def _asked(recipe: RecipeConfig, order: EvaluationOrder) -> RecipeConfig:
    """The recipe with the protocol that `eval` was asked for."""
    asked = {"tasks": order.tasks, "samples": order.samples, "temperature": order.temperature}
    update = {key: value for key, value in asked.items() if value is not None}
    return recipe.model_copy(update={"evaluation": recipe.evaluation.model_copy(update=update)})


def _manifest(resolved: Resolved, foundation: Foundation, tokenizer: Path, identity: _Identity) -> Manifest:
    from rollwright.learner.models import num_parameters

    recipe, world, model = resolved.recipe, foundation.world, foundation.model
    facts = ManifestFacts(
        run_id=identity.run_id,
        created_at=identity.created_at,
        source_run_id=identity.source_run_id,
        architecture=type(model).__name__,
        num_parameters=num_parameters(model),
        initial_weights_sha256=identity.initial_weights_sha256,
        tokenizer_revision=foundation.renderer.revision({}),
        tokenizer=tokenizer,
        environment=world.environment,
        tool_schema_revision=foundation.rendering_revision,
        reward_rule=world.verifiers.composition.revision,
        verifier_revisions={p.verifier.name: p.verifier.revision for p in world.verifiers.composition.parts},
        mixture=world.mixture,
        protocol=foundation.protocol,
        is_deterministic=recipe.engine.mode == "deterministic" and recipe.runtime.max_lag == 0,
    )
    return build_manifest(resolved, facts)


def _compare_conditions(folder: RunFolder, now: Manifest, observer: Observer) -> None:
    """Say what a resumed run no longer shares with the one that began; a broken condition ends the promise."""
    broken = [d for d in manifest_differences(folder.manifest, now) if d.is_condition]
    if broken:
        text = "; ".join(f"{d.path} was {d.stored} and is {d.now}" for d in broken[:5])
        observer.warned(f"the run goes on under other conditions, so the deterministic promise ends: {text}")
        folder.record_event(_event("promise_ended", text))


def _started(
    foundation: Foundation, folder: RunFolder, resumed_step: int | None, stored: StoredBatches | None
) -> RunStarted:
    from rollwright.learner.models import num_parameters

    recipe = foundation.recipe
    steps = [s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in recipe.stages]
    return RunStarted(
        run_dir=str(folder.path),
        run_id=folder.manifest.run.run_id,
        stages=tuple(stage.name for stage in recipe.stages),
        total_steps=sum(steps) if stored is None else stored.steps,
        resumed_step=resumed_step,
        num_parameters=num_parameters(foundation.model),
    )


def _source_of(folder: RunFolder) -> StoredRun | None:
    """The stored run that this one learns from, where it is one."""
    paths = [event.fields["path"] for event in folder.events() if event.kind == _SOURCE]
    if not paths:
        return None
    if not Path(paths[0]).is_dir():
        raise RecipeError(f"{folder.path} learns from the stored run {paths[0]}, which is not there; put it back.")
    return StoredRun(Path(paths[0]))


def _event(kind: str, text: str, *, step: int | None = None, path: str | None = None) -> Event:
    fields = {} if path is None else {"path": path}
    return Event(at=datetime.now(UTC), kind=kind, text=text, step=step, fields=fields)


def _free_folder(recipe: RecipeConfig) -> Path:
    name = f"{recipe.run.name}-seed{recipe.run.seed}"
    number = 1
    while (path := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path
