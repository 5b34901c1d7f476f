"""A stored run trained again by its own schedule, and whether the same weights came of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import Checkpoint, Commit, EvidenceError, RunFolder, writer_of
from rollwright.recipes.build.manifest import config_sha256
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.resolve import Resolved
from rollwright.recipes.runs import TrainOrder, holds_run, stored_recipe, train_run
from rollwright.runtime.errors import ReplayError
from rollwright.runtime.observers import Observer

__all__ = ["ReplayResult", "replay_run"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayResult:
    """What a replay came to."""

    run_dir: str
    source: str
    steps: int
    seconds: float
    weights_sha256: str
    """Of the replay's last weights file."""
    source_sha256: str
    """Of the stored run's."""

    @property
    def is_equal(self) -> bool:
        """Whether the same weights came of it, bit for bit."""
        return self.weights_sha256 == self.source_sha256


def replay_run(run: Path, run_dir: Path | None, observer: Observer) -> ReplayResult:
    """Sample and train again what a stored run sampled and trained, in its order.

    Args:
        run: the stored run.
        run_dir: the new folder; None: beside it, as `NAME-replay`.
        observer: hears what happens.

    Raises:
        RecipeError: for a run that cannot be followed, or that another process writes.
        ReplayError: for the first token, log-probability or outcome that comes out otherwise.
    """
    path = run_dir or run.with_name(f"{run.name}-replay")
    if holds_run(path):
        raise RecipeError(
            f"{path} already holds a run; a replay begins in a new folder: delete that one, or name another by "
            "`--run-dir`."
        )
    before = _standing(run)
    resolved = stored_recipe(run, ())
    _refuse_edited(run, resolved)
    if before.steps[-1].step > before.step:
        observer.warned(
            f"{run} was ended behind its newest checkpoint, that of step {before.step}: the replay ends there, as a "
            "resumed run would begin there."
        )
    engine = resolved.recipe.engine
    if not engine.is_deterministic:
        sampled = f"in the mode {engine.mode!r}" if engine.kind == "embedded" else f"by the engine {engine.kind!r}"
        observer.warned(
            f"{run} sampled {sampled}, which promises no bits; the first difference "
            "ends the replay. `--set engine.mode=deterministic` makes runs that replay exactly."
        )
    if resolved.recipe.learner.device != "cpu":
        observer.warned(
            f"{run} trained on {resolved.recipe.learner.device}, where sums have no promised order; the first "
            "difference ends the replay. `--set learner.device=cpu` makes runs that replay exactly."
        )
    order = TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False, follow=run)
    try:
        result = train_run(order, observer)
    except (EvidenceError, ReplayError):
        _refuse_changed(run, before, path)
        raise
    _refuse_changed(run, before, path)
    return ReplayResult(
        run_dir=str(path),
        source=str(run),
        steps=result.steps,
        seconds=result.seconds,
        weights_sha256=_weights_sha256(_last_checkpoint(RunFolder.open(path))),
        source_sha256=before.weights_sha256,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """How a stored run stands before it is followed; what its checkpoint holds may be gone afterwards."""

    steps: tuple[Commit, ...]
    step: int
    """Of its newest checkpoint."""
    weights_sha256: str


def _standing(run: Path) -> _Standing:
    folder = RunFolder.open(run)
    writer = writer_of(run)
    if writer is not None:
        raise RecipeError(f"{run} is being written by {writer}; wait until it has ended, and replay the run then.")
    checkpoint = _last_checkpoint(folder)
    return _Standing(steps=_steps_of(folder), step=checkpoint.step, weights_sha256=_weights_sha256(checkpoint))


def _steps_of(folder: RunFolder) -> tuple[Commit, ...]:
    return tuple(commit for commit in folder.commits if commit.kind == "step")


def _refuse_changed(run: Path, before: _Standing, path: Path) -> None:
    if _steps_of(RunFolder.open(run)) != before.steps:
        raise RecipeError(
            f"another process went on with {run} while it was replayed, which compares nothing; wait until it has "
            f"ended, delete {path} and replay the run again."
        )


def _refuse_edited(run: Path, resolved: Resolved) -> None:
    folder = RunFolder.open(run)
    if len(folder.manifests) > 1:
        raise RecipeError(
            f"{run} has {len(folder.manifests)} segments, made by other code, data, verifiers or values one after the "
            "other; a replay makes a whole run anew under one of them, and would compare what was never meant to agree."
        )
    due, found = folder.manifest.run.config_sha256, config_sha256(resolved.recipe)
    if found != due:
        raise RecipeError(
            f"{run / 'recipe.toml'} is not the recipe that the run began with (its digest was {due[:16]} and is "
            f"{found[:16]}); put that one back, or use the version of rollwright that wrote the run (manifest.json "
            "names its code commit)."
        )


def _last_checkpoint(folder: RunFolder) -> Checkpoint:
    chosen = folder.newest_checkpoint().chosen
    if chosen is None:
        raise RecipeError(
            f"{folder.path} has no checkpoint that counts; there are no weights to compare a replay with."
        )
    return chosen


def _weights_sha256(checkpoint: Checkpoint) -> str:
    """Of the weights' files, in the order of their names."""
    digest = hashlib.sha256()
    for file in sorted(checkpoint.path.glob("*.safetensors")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
