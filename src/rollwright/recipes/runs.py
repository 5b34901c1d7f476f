"""Whole runs: train, resume, train again from a stored run, sample only, evaluate."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rollwright.evaluation import Evaluation
from rollwright.evidence import (
    Checkpoint,
    CommitRows,
    RunFolder,
    StoredRun,
    content_hash,
    manifest_differences,
)
from rollwright.evidence.gates import drop_gates_after
from rollwright.recipes.build.alarms import seen_alarms
from rollwright.recipes.build.crossing import carried_over, settle_open_groups
from rollwright.recipes.build.exporters import logged, mend_log, refuse_missing_clients
from rollwright.recipes.build.identity import (
    Identity,
    event_now,
    manifest_of,
    refuse_other_experiment,
)
from rollwright.recipes.build.learner import StagedLearner
from rollwright.recipes.build.model import build_tokenizer
from rollwright.recipes.build.objective import refuse_untrainable
from rollwright.recipes.build.protocols import Baselines, note_protocols
from rollwright.recipes.build.replay import read_replay
from rollwright.recipes.build.session import (
    EvaluationPlan,
    Foundation,
    LoopOrder,
    lay_foundation,
    loop_parts,
    make_episodes,
    open_engine,
    run_evaluation,
    unwatched,
)
from rollwright.recipes.build.start import checkpoint_at, first_weights, model_source, weights_of
from rollwright.recipes.build.stored import StoredBatches, stored_batches
from rollwright.recipes.build.world import build_world, refuse_undemonstrated
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.overlaps import audit_tasks
from rollwright.recipes.protocols import read_protocol
from rollwright.recipes.resolve import Resolved, recipe_from_tree, recipe_toml, resolve_text
from rollwright.recipes.segments import choose_segment, enter_segment
from rollwright.recipes.stored import changed_values
from rollwright.recipes.withheld import restored_text
from rollwright.record import Engine
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.collecting import collect_only
from rollwright.runtime.loop import Loop
from rollwright.runtime.loop_parts import LoopParts, RunResult
from rollwright.runtime.observers import Observer, RunStarted
from rollwright.runtime.parts import GroupCounter
from rollwright.runtime.progress import EvaluationPoint, Progress
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
    if holds_run(path):
        raise RecipeError(f"{path} already holds a run; `rollwright resume {path}` goes on with it, or choose another.")
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
        observer = logged(resolved.recipe, folder, observer, stack, resumed_step=None, now=_now)
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
        observer.run_started(_started(foundation, folder, None, stored))
        for reason in foundation.renderer.report.reasons:
            observer.warned(f"chat template: {reason}")
        if order.is_rollouts_only:
            collect = partial(collect_only, evaluation_groups=foundation.evaluation_groups)
            return _finish(foundation, loop_order, stack, _Start(checkpoint=None, progress=None), collect)
        return _finish(foundation, loop_order, stack, _Start(checkpoint=None, progress=None), None)


def holds_run(path: Path) -> bool:
    """Whether a folder holds a run already."""
    return (path / "manifest.json").exists()


def _note_kind(folder: RunFolder, order: TrainOrder) -> None:
    """Note what kind of run it is, where it is no ordinary one: before its first commit, for `resume`."""
    if order.source is not None:
        folder.record_event(
            event_now(_SOURCE, "learns from the episodes of a stored run", path=str(order.source.resolve()))
        )
    if order.follow is not None:
        folder.record_event(
            event_now(_REPLAY, "follows the schedule of a stored run", path=str(order.follow.resolve()))
        )
    if order.is_rollouts_only:
        folder.record_event(event_now(_ROLLOUTS_ONLY, "records episodes and learns nothing"))


def resume_run(
    path: Path,
    observer: Observer,
    *,
    new_segment: str | None = None,
    acknowledgment: str | None = None,
    settings: Sequence[str] = (),
) -> TrainResult:
    """Go on from the newest complete checkpoint; what came later never happened.

    Args:
        path: the run's folder.
        observer: hears what happens.
        new_segment: why the run goes on with other code, data, environment, verifiers or values; None: with the same.
        acknowledgment: why a run that an alarm paused may go on; None: nobody says so.
        settings: secrets that were withheld from the stored recipe, as `key=value`.

    Raises:
        EvidenceError: when the folder is no run, is of another schema, or is being written.
        RunPausedError: when an alarm paused it and nobody acknowledges that.
        RecipeError: when what is here now is not what the run was, and no new segment says so.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(RunFolder.open(path, "write"))
        resolved = _given_again(folder, settings)
        chosen = _checkpoint_to_resume(folder, observer)
        progress = None if chosen is None else read_progress(chosen)
        alarms = seen_alarms(folder, resolved.recipe, 0 if progress is None else progress.step)
        alarms.refuse_unread(acknowledgment)
        world = build_world(resolved.recipe)
        stack.callback(world.close)
        source = _source_of(folder)
        stored = None if source is None else stored_batches(resolved.recipe, source, observer)
        foundation = lay_foundation(
            resolved.recipe,
            world,
            folder.tokenizer,
            lambda: (
                first_weights(resolved.recipe, world, folder.tokenizer, source)
                if chosen is None
                else weights_of(chosen)
            ),
        )
        now = manifest_of(resolved, foundation, folder.tokenizer, Identity.of(folder.manifest))
        segment = choose_segment(folder, now, chosen, reason=new_segment, at=datetime.now(UTC))
        abandoned = folder.abandon_after(0 if chosen is None else chosen.commit)
        if abandoned:
            observer.warned(
                f"{len(abandoned)} commits behind the checkpoint never happened; their steps are done again"
            )
        enter_segment(folder, segment, observer)
        drop_gates_after(folder.path, 0 if progress is None else progress.step)
        note_protocols(folder, foundation.protocols)
        alarms.acknowledge(acknowledgment)
        resumed_step = progress.step if progress else 0
        mend_log(resolved.recipe, folder, step=resumed_step if progress else -1, now=_now)
        observer = logged(resolved.recipe, folder, observer, stack, resumed_step=resumed_step, now=_now)
        folder.record_event(event_now("resumed", "went on from a checkpoint", step=progress.step if progress else 0))
        order = LoopOrder(
            folder=folder,
            observer=observer,
            shutdown=Shutdown(observer.warned),
            version=0 if progress is None else progress.step,
            first_group=0 if progress is None else progress.next_group,
            balance=None if progress is None else progress.balance,
            stored=stored,
            replay=None,
            watch=unwatched,
            alarms=alarms.watch,
        )
        observer.run_started(_started(foundation, folder, 0 if progress is None else progress.step, stored))
        return _finish(foundation, order, stack, _Start(checkpoint=chosen, progress=progress), None)


def _given_again(folder: RunFolder, settings: Sequence[str]) -> Resolved:
    """The stored recipe, with the secrets that it was stored without."""
    resolved = resolve_text(folder.recipe_toml, origin=f"run {folder.path.name}", settings=settings)
    if settings and set(changed_values(folder.recipe_toml, resolved)):
        raise RecipeError(
            f"--set gives a resumed run the secrets that {folder.path} was stored without, and changes nothing else; "
            "change the folder's recipe.toml and say so by --new-segment."
        )
    return resolved


def _checkpoint_to_resume(folder: RunFolder, observer: Observer) -> Checkpoint | None:
    """The newest checkpoint that counts; None where the run had not come to its first.

    Raises:
        RecipeError: where resuming would throw away what the folder holds.
    """
    if any(event.kind == _ROLLOUTS_ONLY for event in folder.events()):
        raise RecipeError(
            f"{folder.path} only recorded episodes; learn from them by `rollwright train --from {folder.path}`."
        )
    followed = [restored_text(event.fields["path"]) for event in folder.events() if event.kind == _REPLAY]
    if followed:
        raise RecipeError(
            f"{folder.path} replays {followed[0]}; a replay is not gone on with: delete {folder.path} and give "
            f"`rollwright replay {followed[0]}` again."
        )
    choice = folder.newest_checkpoint()
    for refused in choice.refused:
        observer.warned(f"checkpoint {refused.name} does not count: {refused.reason}")
    finished = max((c.step for c in folder.commits if c.kind == "step"), default=0)
    if choice.chosen is None and finished > 0:
        raise RecipeError(
            f"{folder.path} holds {finished} finished steps and no checkpoint that counts; going on would do them all "
            "again. Put its `checkpoints` folder back, or learn from its episodes by `rollwright train --from`."
        )
    return choice.chosen


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
        observer.run_started(_started(foundation, folder, checkpoint.step, None))

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


_ROLLOUTS_ONLY = "rollouts_only"
"""The event of a run that records and does not learn."""
_REPLAY = "replay"
"""The event that names the stored run whose schedule this one follows."""
_SOURCE = "source"
"""The event that names the stored run that this one learns from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    checkpoint: Checkpoint | None
    progress: Progress | None


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
            progress = start.progress
            if start.checkpoint is not None and progress is not None:
                progress = _in_this_segment(foundation, order.folder, parts, start.checkpoint, progress)
                began = time.monotonic()
                parts.learner_thread.submit(_restore, parts, learner, progress, start.checkpoint.path).result()
                parts = replace(parts, restored_s=time.monotonic() - began)
            return await (instead(parts) if instead is not None else Loop(parts, progress).run())
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


def _in_this_segment(
    foundation: Foundation, folder: RunFolder, parts: LoopParts, checkpoint: Checkpoint, progress: Progress
) -> Progress:
    """Where the run stands, in the segment that it goes on in."""
    [commit] = [c for c in folder.commits if c.number == checkpoint.commit]
    if folder.manifest_of(commit) == folder.manifest:
        return progress
    carried = carried_over(progress, foundation.recipe, foundation.world.mixture, parts.stages)
    left = [group for group in progress.collector.open_groups if group not in carried.collector.open_groups]
    if left:
        settle_open_groups(parts.ledger, left, StoredRun(folder.path), step=progress.step + 1)
    return carried


def _restore(parts: LoopParts, learner: StagedLearner, progress: Progress, folder: Path) -> None:
    parts.stages[min(progress.stage, len(parts.stages) - 1)].begin()
    learner.restore(folder)


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
    due = folder.manifest.run.source_run_id
    if due is None:
        return None
    paths = [restored_text(event.fields["path"]) for event in folder.events() if event.kind == _SOURCE]
    if not paths:
        raise RecipeError(
            f"{folder.path} learns from the stored run {due} and was ended before it noted where that is; delete the "
            "folder and give `rollwright train --from` again."
        )
    if not Path(paths[0]).is_dir():
        raise RecipeError(f"{folder.path} learns from the stored run {paths[0]}, which is not there; put it back.")
    source = StoredRun(Path(paths[0]))
    if source.folder.manifest.run.run_id != due:
        raise RecipeError(f"{paths[0]} is not the run {due} that {folder.path} learns from; put that one back.")
    return source


def _now() -> datetime:
    return datetime.now(UTC)


def _free_folder(recipe: RecipeConfig) -> Path:
    name = f"{recipe.run.name}-seed{recipe.run.seed}"
    number = 1
    while (path := Path("runs") / (name if number == 1 else f"{name}-{number}")).exists():
        number += 1
    return path
