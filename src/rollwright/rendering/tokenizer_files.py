"""A tokenizer's folder: taken from a model, and what of it a fresh model must know."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from rollwright.rendering.errors import RenderingError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

__all__ = ["Vocabulary", "copy_tokenizer", "load_tokenizer", "read_vocabulary"]


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
    load_tokenizer(origin).save_pretrained(str(folder))


def load_tokenizer(origin: Path) -> "PreTrainedTokenizerBase":
    """The tokenizer of a folder or of a `.gguf` file; nothing is downloaded, no code of the folder runs.

    Raises:
        RenderingError: when there is none, or none that loads as it stands.
    """
    from transformers import AutoTokenizer  # it brings torch along, which most users of this room do without

    if origin.suffix == ".gguf":
        folder, options = origin.parent, {"gguf_file": origin.name}
    else:
        folder, options = origin, {}
        if not (origin / "tokenizer.json").is_file():
            raise RenderingError(
                f"{str(origin)!r} has no tokenizer.json, so no tokenizer loads from there; save one with transformers' "
                "save_pretrained."
            )
    try:
        loaded = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False, **options)
    except Exception as error:  # noqa: BLE001 - a malformed file raises whatever stood in the way
        if "trust_remote_code" in str(error):
            raise RenderingError(
                f"the tokenizer in {str(origin)!r} needs Python code of its own, which is never run; give one that "
                "transformers knows."
            ) from error
        raise RenderingError(
            f"no tokenizer loads from {str(origin)!r}: {type(error).__name__}: {error}. It needs a whole "
            "tokenizer.json and tokenizer_config.json."
        ) from error
    return cast("PreTrainedTokenizerBase", loaded)


def read_vocabulary(folder: Path) -> Vocabulary:
    """The size and the special ids of a tokenizer folder."""
    tokenizer = load_tokenizer(folder)
    end_id, pad_id = cast(int | None, tokenizer.eos_token_id), cast(int | None, tokenizer.pad_token_id)
    return Vocabulary(size=len(tokenizer), end_id=end_id, pad_id=pad_id)
