"""A tokenizer's folder: taken from a model, and what of it a fresh model must know."""

from dataclasses import dataclass
from pathlib import Path

from transformers import AutoTokenizer

from rollwright.rendering.errors import RenderingError

__all__ = ["Vocabulary", "copy_tokenizer", "read_vocabulary"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """Numbers of a tokenizer that a model's shape needs."""

    size: int
    end_id: int | None
    pad_id: int | None


def copy_tokenizer(origin: Path, folder: Path) -> None:
    """Write the tokenizer of a model to a folder of its own.

    Args:
        origin: a Hugging Face folder, or a `.gguf` file that carries a tokenizer.
        folder: to be filled.

    Raises:
        RenderingError: when no tokenizer loads from there.
    """
    try:
        if origin.suffix == ".gguf":
            tokenizer = AutoTokenizer.from_pretrained(str(origin.parent), gguf_file=origin.name, local_files_only=True)
        else:
            tokenizer = AutoTokenizer.from_pretrained(str(origin), local_files_only=True)
    except (OSError, ValueError) as error:
        raise RenderingError(f"no tokenizer loads from {origin}: {error}. It needs tokenizer.json.") from error
    tokenizer.save_pretrained(str(folder))


def read_vocabulary(folder: Path) -> Vocabulary:
    """The size and the special ids of a tokenizer folder."""
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    return Vocabulary(size=len(tokenizer), end_id=tokenizer.eos_token_id, pad_id=tokenizer.pad_token_id)
