"""Whole runs: train, train again from a stored run, sample only, evaluate; `resuming` goes on with one."""

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rollwright.evaluation import Evaluation
from rollwright.evidence import (
    CommitRows,
    RunFolder,
    StoredRun,
    manifest_differences,
)
from rollwright.recipes.build.exporters import logged, refuse_missing_clients
from rollwright.recipes.build.identity import (
    Identity,
    event_now,
    manifest_of,
    refuse_other_experiment,
)
from rollwright.recipes.build.model import build_tokenizer
from rollwright.recipes.build.objective import refuse_untrainable
from rollwright.recipes.build.protocols import Baselines, note_protocols
from rollwright.recipes.build.replay import read_replay
from rollwright.recipes.build.session import (
    EvaluationPlan,
    LoopOrder,
    lay_foundation,
    make_episodes,
    open_engine,
    run_evaluation,
    unwatched,
)
from rollwright.recipes.build.start import checkpoint_at, first_weights, model_source, weights_of
from rollwright.recipes.build.stored import stored_batches
from rollwright.recipes.build.world import build_world, refuse_undemonstrated
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.overlaps import audit_tasks
from rollwright.recipes.protocols import read_protocol
from rollwright.recipes.resolve import Resolved, recipe_from_tree, recipe_toml, resolve_text
from rollwright.recipes.resuming import resume_run
from rollwright.recipes.running import REPLAY, ROLLOUTS_ONLY, SOURCE, TrainResult, go_to_end, started
from rollwright.record import Engine
from rollwright.runtime.collecting import collect_only
from rollwright.runtime.observers import Observer
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.shutdown import Shutdown
from rollwright.runtime.weights import WeightShelf

__all__ = [
    "EvaluationOrder",
    "TrainOrder",
    "TrainResult",
    "evaluate_run",
    "holds_run",
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
    follow: Path | None = None
    """A stored run whose schedule is followed: the same groups under the same versions in the same steps."""
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
    protocol: str | None = None
    """One that ships, or a file: instead of the run's own, and of those beside it."""


def train_run(order: TrainOrder, observer: Observer) -> TrainResult:
    """Start a run and go to its end.

    Raises:
        RecipeError: for what cannot be run as asked.
        RunStoppedError: when the user stopped it; what was saved stays.
    """
    resolved = order.resolved
    path = order.run_dir or _free_folder(resolved.recipe)
    if holds_run(path):
        raise RecipeError(
            f"{path} already holds a run; `rollwright resume {shlex.quote(str(path))}` goes on with it, or "
            "choose another."
        )
    refuse_untrainable(resolved.recipe)
    refuse_missing_clients(resolved.recipe)
    source = None if order.source is None else StoredRun(order.source)
    stored = None if source is None else stored_batches(resolved.recipe, source, observer)
    replay = None if order.follow is None else read_replay(resolved.recipe, StoredRun(order.follow))
    with ExitStack() as stack:
        world = build_world(resolved.recipe)
        stack.callback(world.close)
        if source is None:
            refuse_undemonstrated(resolved.recipe, world)
            tokenizer = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollwright-tokenizer-")))
            build_tokenizer(model_source(resolved.recipe, world), tokenizer)
        else:
            tokenizer = source.folder.tokenizer
        foundation = lay_foundation(
            resolved.recipe, world, tokenizer, lambda: first_weights(resolved.recipe, world, tokenizer, source)
        )
        manifest = manifest_of(resolved, foundation, tokenizer, Identity.new(path, source, foundation.model))
        folder = stack.enter_context(
            RunFolder.create(path, manifest, recipe_toml(resolved.recipe), tokenizer=tokenizer)
        )
        _note_kind(folder, order)
        observer = logged(resolved.recipe, folder, observer, stack, resumed_step=None, now=partial(datetime.now, UTC))
        note_protocols(folder, foundation.protocols)
        audit = audit_tasks(world.mixture)
        folder.record_event(audit)
        loop_order = LoopOrder(
            folder=folder,
            observer=observer,
            shutdown=Shutdown(observer.warned),
            version=0,
            first_group=0,
            balance=None,
            stored=stored,
            replay=replay,
            watch=order.watch,
        )
        observer.run_started(started(foundation, folder, None, stored))
        for reason in foundation.renderer.report.reasons:
            observer.warned(f"chat template: {reason}")
        if order.is_rollouts_only:
            collect = partial(collect_only, evaluation_groups=foundation.evaluation_groups)
            return go_to_end(foundation, loop_order, stack, instead=collect)
        return go_to_end(foundation, loop_order, stack)


def holds_run(path: Path) -> bool:
    """Whether a folder holds a run already."""
    return (path / "manifest.json").exists()


def _note_kind(folder: RunFolder, order: TrainOrder) -> None:
    """Note what kind of run it is, where it is no ordinary one: before its first commit, for `resume`."""
    if order.source is not None:
        folder.record_event(
            event_now(SOURCE, "learns from the episodes of a stored run", path=str(order.source.resolve()))
        )
    if order.follow is not None:
        folder.record_event(event_now(REPLAY, "follows the schedule of a stored run", path=str(order.follow.resolve())))
    if order.is_rollouts_only:
        folder.record_event(event_now(ROLLOUTS_ONLY, "records episodes and learns nothing"))


def evaluate_run(order: EvaluationOrder, observer: Observer) -> Evaluation:
    """Evaluate a checkpoint on held-out tasks and commit the result to the run.

    Raises:
        RecipeError: when there is no such checkpoint.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.open(order.run, "write"))
        checkpoint = checkpoint_at(folder, order.step)
        resolved = resolve_text(folder.recipe_toml, origin=f"run {order.run.name}")
        recipe = _asked(resolved.recipe, order)
        world = build_world(recipe)
        stack.callback(world.close)
        foundation = lay_foundation(recipe, world, folder.tokenizer, lambda: weights_of(checkpoint))
        now = manifest_of(resolved, foundation, folder.tokenizer, Identity.of(folder.manifest))
        asked_otherwise = recipe != resolved.recipe
        refuse_other_experiment(
            folder,
            [
                d
                for d in manifest_differences(folder.manifest, now)
                if not (asked_otherwise and d.path.startswith(("evaluation.", "digests.protocol ")))
            ],
        )
        observer.run_started(replace(started(foundation, folder, None, None), evaluated_step=checkpoint.step))

        async def go() -> Evaluation:
            engine = open_engine(foundation, WeightShelf(), version=checkpoint.step)
            try:
                plan = EvaluationPlan(
                    episodes=make_episodes(foundation, engine),
                    counter=GroupCounter(folder.first_group_id),
                    baselines=Baselines(recipe, folder),
                    observer=observer,
                )
                return await run_evaluation(foundation, plan, checkpoint.step)
            finally:
                await engine.close()

        evaluation = asyncio.run(go())
        note_protocols(folder, foundation.protocols)
        rows = CommitRows(
            kind="evaluation",
            step=checkpoint.step,
            trajectories=evaluation.trajectories,
            # Called after its commit: the step may have been evaluated before, by this protocol or by another.
            evaluations=tuple(
                replace(row, evaluation=f"{row.evaluation}#{folder.next_commit}") for row in evaluation.rows
            ),
        )
        folder.commit(rows, at=datetime.now(UTC))
        return evaluation


def stored_recipe(run: Path, settings: Sequence[str]) -> Resolved:
    """The recipe of a stored run, with settings on top."""
    folder = RunFolder.open(run)
    return resolve_text(folder.recipe_toml, origin=f"run {run.name}", settings=settings)


def _asked(recipe: RecipeConfig, order: EvaluationOrder) -> RecipeConfig:
    """The recipe with the protocol that `eval` was asked for, within the bounds of every recipe."""
    asked = {"tasks": order.tasks, "samples": order.samples, "temperature": order.temperature}
    update = {key: value for key, value in asked.items() if value is not None}
    tree = recipe.model_dump(mode="json", exclude_none=True)
    if order.protocol is not None:
        named = read_protocol(order.protocol).model_dump(mode="json", exclude_none=True)
        tree["evaluation"] = {**named, "every": recipe.evaluation.every, "protocol": [order.protocol]}
    tree["evaluation"] |= update
    return recipe_from_tree(tree)


def _free_folder(recipe: RecipeConfig) -> Path:
    name = f"{recipe.run.name}-seed{recipe.run.seed}"
    number = 1
    while (path := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path
