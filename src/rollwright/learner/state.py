"""Everything a learner needs to go on: an ordinary Hugging Face folder, and beside the weights its training state.

    FOLDER/config.json  generation_config.json  model.safetensors     loads in transformers; the caller adds a tokenizer
    FOLDER/training_state/optimizer.safetensors  rng.safetensors  reference.safetensors  learner.json  complete.json

Nothing is pickled. A folder is written under a temporary name, synced and renamed; `complete.json` is written last and
lists every file with its digest.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Mapping
from copy import copy, deepcopy
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel

from rollwright.learner.errors import CheckpointError
from rollwright.learner.models import save_model, system_errors
from rollwright.learner.optimizer import Optimizer
from rollwright.record.engine import TensorSpec

__all__ = [
    "LearnerCounters",
    "LearnerState",
    "StateCopy",
    "copied_weights",
    "copy_state",
    "named_weights",
    "restore_state",
    "save_state",
    "tensor_specs",
]

STATE_FOLDER = "training_state"
FORMAT = 1


@dataclass(slots=True, kw_only=True)
class LearnerCounters:
    """What a learner counts, saved with its state."""

    num_steps: int = 0
    """Batches trained."""
    num_bad_in_a_row: int = 0
    """Updates skipped for numbers that are not finite since the last that was not."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LearnerState:
    """The parts of a learner that a checkpoint holds; they are read and written in place."""

    model: PreTrainedModel
    optimizer: Optimizer
    counters: LearnerCounters
    reference: PreTrainedModel | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StateCopy:
    """A learner's state at one moment, which nothing changes any more; it can be written beside the next update."""

    model: PreTrainedModel
    """Says what the model is; its weights are those that train."""
    weights: Mapping[str, Tensor]
    """By name, as they stood; tied ones stand under each of their names."""
    moments: Mapping[str, Tensor]
    """Of the optimizer."""
    random_state: Tensor
    numbers: Mapping[str, int]
    reference: PreTrainedModel | None

    def write(self, folder: Path) -> None:
        """Fill an empty folder; who made the folder makes it durable and gives it its name.

        Args:
            folder: it exists.
        """
        inner = folder / STATE_FOLDER
        inner.mkdir()
        save_model(self.model, folder, self.weights)
        with system_errors():
            save_file(dict(self.moments), inner / "optimizer.safetensors")
            save_file({"torch_cpu": self.random_state}, inner / "rng.safetensors")
        if self.reference is not None:
            save_model(self.reference, inner / "reference")
        text = json.dumps({"format": FORMAT, **self.numbers}, indent=1, sort_keys=True)
        (inner / "learner.json").write_text(text + "\n", encoding="utf-8")
        files = {str(path.relative_to(folder)): _sha256(path) for path in _files(folder)}
        (inner / "complete.json").write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def copy_state(state: LearnerState) -> StateCopy:
    """The state of a learner between two steps, apart from it; a frozen reference is not copied.

    Args:
        state: its weights and moments take their size in memory once more.
    """
    numbers = asdict(state.counters)
    numbers |= {"num_applied": state.optimizer.num_applied, "num_skipped": state.optimizer.num_skipped}
    return StateCopy(
        model=_described(state.model),
        weights=copied_weights(named_weights(state.model)),
        moments={name: tensor.clone() for name, tensor in state.optimizer.state_tensors().items()},
        random_state=torch.get_rng_state(),
        numbers=numbers,
        reference=state.reference,
    )


def named_weights(model: PreTrainedModel) -> dict[str, Tensor]:
    """Every weight by name, as views that the next update changes; tied ones stand under each of their names."""
    return {name: tensor.detach() for name, tensor in model.state_dict().items()}


def copied_weights(weights: Mapping[str, object]) -> dict[str, Tensor]:
    """The same numbers apart from the model, which no update changes; tied weights stay one tensor.

    Args:
        weights: of a model, by name.
    """
    copies: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Tensor] = {}
    copied: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        assert isinstance(tensor, Tensor), f"{name} is no tensor"
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride())
        if place not in copies:
            copies[place] = tensor.detach().clone()
        copied[name] = copies[place]
    return copied


def tensor_specs(weights: Mapping[str, Tensor]) -> tuple[TensorSpec, ...]:
    """What a publication holds, by name: type, shape and sha256 of the bytes in row order."""
    digests: dict[tuple[int, tuple[int, ...]], str] = {}
    specs: list[TensorSpec] = []
    for name, tensor in sorted(weights.items()):
        shape = tuple(tensor.shape)
        place = (tensor.data_ptr(), shape)
        if place not in digests:
            raw = tensor.detach().contiguous().cpu().flatten().view(torch.uint8)
            digests[place] = hashlib.sha256(raw.numpy().data).hexdigest()
        dtype = str(tensor.dtype).removeprefix("torch.")
        specs.append(TensorSpec(name=name, dtype=dtype, shape=shape, sha256=digests[place]))
    return tuple(specs)


def save_state(state: LearnerState, folder: Path) -> None:
    """Write a checkpoint; a folder of this name is replaced only by a complete one. On several ranks, call on one.

    Args:
        state: of a learner between two steps.
        folder: its parent exists.
    """
    temporary = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    copy_state(state).write(temporary)
    for path in (*_files(temporary), temporary / STATE_FOLDER, temporary):
        _sync(path)
    if folder.exists():
        shutil.rmtree(folder)
    temporary.rename(folder)
    _sync(folder.parent)


def restore_state(state: LearnerState, folder: Path) -> PreTrainedModel | None:
    """Take a checkpoint back, bit for bit; nothing changes where the folder is not whole.

    Args:
        state: of a learner with the same model shape; its parts are written to.
        folder: written by `save_state`.

    Returns:
        The reference model, or None where the checkpoint has none.
    """
    _check(folder)
    inner = folder / STATE_FOLDER
    try:
        weights = _weights_of(folder)
        optimizer = load_file(inner / "optimizer.safetensors")
        rng = load_file(inner / "rng.safetensors")
        numbers = json.loads((inner / "learner.json").read_text(encoding="utf-8"))
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"the checkpoint {folder} cannot be read ({error}); take an older one.") from error
    if numbers["format"] != FORMAT:
        raise CheckpointError(f"{folder} has state format {numbers['format']}; this version reads {FORMAT}.")
    reference = None
    if (inner / "reference").is_dir():
        reference = type(state.model)(state.model.config)
        _load_weights(reference, _weights_of(inner / "reference"), folder)
    _load_weights(state.model, weights, folder)
    state.optimizer.load_state_tensors(optimizer)
    state.optimizer.num_applied = numbers["num_applied"]
    state.optimizer.num_skipped = numbers["num_skipped"]
    state.counters.num_steps = numbers["num_steps"]
    state.counters.num_bad_in_a_row = numbers["num_bad_in_a_row"]
    torch.set_rng_state(rng["torch_cpu"])
    return reference


def _described(model: PreTrainedModel) -> PreTrainedModel:
    """The model with a configuration of its own, which saving fills in; all else is shared.

    A deep copy makes every module anew, in Python, while the engine and the episodes want the interpreter too.
    """
    described = copy(model)
    described.config = deepcopy(model.config)
    described.generation_config = deepcopy(model.generation_config)
    return described


def _check(folder: Path) -> None:
    marker = folder / STATE_FOLDER / "complete.json"
    if not marker.is_file():
        raise CheckpointError(
            f"{folder} is no complete checkpoint: it has no {STATE_FOLDER}/complete.json. Take an older one; what was "
            "cut off while it was written counts as none."
        )
    for name, digest in json.loads(marker.read_text(encoding="utf-8")).items():
        path = folder / name
        if not path.is_file() or _sha256(path) != digest:
            raise CheckpointError(
                f"{path} is missing or was changed since the checkpoint was written; take another one."
            )


def _weights_of(folder: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights |= load_file(path)
    return weights


def _load_weights(model: PreTrainedModel, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Copy by name; a tied weight may stand under one of its names."""
    own = named_weights(model)
    present = {own[name].data_ptr() for name in weights if name in own}
    missing = [name for name, tensor in own.items() if tensor.data_ptr() not in present]
    wrong = [name for name, tensor in weights.items() if name not in own or own[name].shape != tensor.shape]
    if missing or wrong:
        raise CheckpointError(
            f"{folder} holds another model: {len(missing)} weights are missing (such as {missing[:2]}), {len(wrong)} "
            f"have no place (such as {wrong[:2]}). Restore it into a model made from its own config.json."
        )
    with torch.no_grad():
        for name, tensor in weights.items():
            own[name].copy_(tensor)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
