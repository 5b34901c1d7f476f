"""A checkpoint is everything: weights, optimizer and schedule, tokenizer, and where the run stands.

checkpoints/step-000040/  config.json model.safetensors tokenizer…   loads in transformers
                          training_state/                            the learner's own
                          progress.json                              counters, cursors, ledger balance, evaluations
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from rollwright.evidence import Checkpoint, Commit, RunFolder
from rollwright.runtime.progress import Progress

__all__ = ["read_progress", "save_checkpoint"]

_PROGRESS = "progress.json"


def save_checkpoint(
    folder: RunFolder, commit: Commit, write_learner: Callable[[Path], None], progress: Progress
) -> None:
    """Write the state after `commit`, whole or not at all.

    Args:
        folder: of the run.
        commit: of the step.
        write_learner: fills a folder with the learner's state after it.
        progress: where the run stood.
    """
    with folder.writing_checkpoint(commit) as path:
        write_learner(path)
        _copy(folder.tokenizer, path)
        (path / _PROGRESS).write_text(progress.to_json(), encoding="utf-8")


def read_progress(checkpoint: Checkpoint) -> Progress:
    """Where the run stood.

    Raises:
        RuntimeRunError: for the state of another schema.
    """
    return Progress.from_json((checkpoint.path / _PROGRESS).read_text(encoding="utf-8"))


def _copy(tokenizer: Path, to: Path) -> None:
    for file in sorted(p for p in tokenizer.iterdir() if p.is_file()):
        shutil.copyfile(file, to / file.name)
