"""A stored run trained again by its own schedule, and whether the same weights came of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from rollwright.evidence import Checkpoint, RunFolder, StoredRun
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.runs import TrainOrder, holds_run, stored_recipe, train_run
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
        RecipeError: for a run that cannot be followed.
        ReplayError: for the first token, log-probability or outcome that comes out otherwise.
    """
    path = run_dir or run.with_name(f"{run.name}-replay")
    if holds_run(path):
        raise RecipeError(
            f"{path} already holds a run; a replay begins in a new folder: delete that one, or name another by "
            "`--run-dir`."
        )
    before = _last_checkpoint(StoredRun(run).folder)
    resolved = stored_recipe(run, ())
    if resolved.recipe.engine.mode != "deterministic":
        observer.warned(
            f"{run} sampled in the mode {resolved.recipe.engine.mode!r}, which promises no bits; the first difference "
            "ends the replay. `--set engine.mode=deterministic` makes runs that replay exactly."
        )
    order = TrainOrder(resolved=resolved, run_dir=path, source=None, is_rollouts_only=False, follow=run)
    result = train_run(order, observer)
    after = _last_checkpoint(RunFolder.open(path))
    if before.step != after.step:
        raise RecipeError(
            f"the newest checkpoint of {run} is that of step {before.step}, the replay came to step {after.step}; "
            "resume the run to its end and replay it then."
        )
    return ReplayResult(
        run_dir=str(path),
        source=str(run),
        steps=result.steps,
        seconds=result.seconds,
        weights_sha256=_weights_sha256(after),
        source_sha256=_weights_sha256(before),
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
