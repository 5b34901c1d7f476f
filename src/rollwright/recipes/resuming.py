"""Go on with a run that was stopped or killed, from the newest checkpoint that counts."""

import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rollwright.evidence import Checkpoint, RunFolder, StoredRun
from rollwright.evidence.gates import drop_gates_after
from rollwright.recipes.build.alarms import seen_alarms
from rollwright.recipes.build.exporters import logged, mend_log
from rollwright.recipes.build.identity import Identity, event_now, manifest_of
from rollwright.recipes.build.protocols import note_protocols
from rollwright.recipes.build.session import Foundation, LoopOrder, lay_foundation, unwatched
from rollwright.recipes.build.start import first_weights, weights_of
from rollwright.recipes.build.stored import stored_batches
from rollwright.recipes.build.world import build_world
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved, resolve_text
from rollwright.recipes.running import REPLAY, ROLLOUTS_ONLY, SOURCE, Saved, TrainResult, go_to_end, started
from rollwright.recipes.segments import choose_segment, enter_segment
from rollwright.recipes.stored import changed_values
from rollwright.recipes.withheld import restored_text
from rollwright.runtime.checkpoints import read_progress
from rollwright.runtime.observers import Observer
from rollwright.runtime.shutdown import Shutdown

__all__ = ["resume_run"]


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
        saved = None if chosen is None else Saved(checkpoint=chosen, progress=read_progress(chosen))
        step = 0 if saved is None else saved.progress.step
        alarms = seen_alarms(folder, resolved.recipe, step)
        alarms.refuse_unread(acknowledgment)
        source = _source_of(folder)
        stored = None if source is None else stored_batches(resolved.recipe, source, observer)
        foundation = _foundation(folder, resolved.recipe, chosen, source, stack)
        now = manifest_of(resolved, foundation, folder.tokenizer, Identity.of(folder.manifest))
        segment = choose_segment(folder, now, chosen, reason=new_segment, at=datetime.now(UTC))
        _forget_after(folder, saved, observer)
        enter_segment(folder, segment, observer)
        drop_gates_after(folder.path, step)
        note_protocols(folder, foundation.protocols)
        alarms.acknowledge(acknowledgment)
        clock = partial(datetime.now, UTC)
        mend_log(resolved.recipe, folder, step=-1 if saved is None else step, now=clock)
        observer = logged(resolved.recipe, folder, observer, stack, resumed_step=step, now=clock)
        folder.record_event(event_now("resumed", "went on from a checkpoint", step=step))
        order = LoopOrder(
            folder=folder,
            observer=observer,
            shutdown=Shutdown(observer.warned),
            version=step,
            first_group=0 if saved is None else saved.progress.next_group,
            balance=None if saved is None else saved.progress.balance,
            stored=stored,
            replay=None,
            watch=unwatched,
            alarms=alarms.watch,
        )
        observer.run_started(started(foundation, folder, step, stored))
        return go_to_end(foundation, order, stack, saved=saved)


def _foundation(
    folder: RunFolder, recipe: RecipeConfig, chosen: Checkpoint | None, source: StoredRun | None, stack: ExitStack
) -> Foundation:
    """The parts of the run as they are now, with the weights that it goes on from."""
    world = build_world(recipe)
    stack.callback(world.close)
    return lay_foundation(
        recipe,
        world,
        folder.tokenizer,
        lambda: first_weights(recipe, world, folder.tokenizer, source) if chosen is None else weights_of(chosen),
    )


def _forget_after(folder: RunFolder, saved: Saved | None, observer: Observer) -> None:
    """Drop what came after the checkpoint."""
    abandoned = folder.abandon_after(0 if saved is None else saved.checkpoint.commit)
    if abandoned:
        observer.warned(f"{len(abandoned)} commits behind the checkpoint never happened; their steps are done again")


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
    if any(event.kind == ROLLOUTS_ONLY for event in folder.events()):
        raise RecipeError(
            f"{folder.path} only recorded episodes; learn from them by `rollwright train --from "
            f"{shlex.quote(str(folder.path))}`."
        )
    followed = [restored_text(event.fields["path"]) for event in folder.events() if event.kind == REPLAY]
    if followed:
        raise RecipeError(
            f"{folder.path} replays {followed[0]}; a replay is not gone on with: delete {folder.path} and give "
            f"`rollwright replay {shlex.quote(followed[0])}` again."
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


def _source_of(folder: RunFolder) -> StoredRun | None:
    """The stored run that this one learns from, where it is one."""
    due = folder.manifest.run.source_run_id
    if due is None:
        return None
    paths = [restored_text(event.fields["path"]) for event in folder.events() if event.kind == SOURCE]
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
