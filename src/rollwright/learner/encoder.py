"""Vectors of texts from a local encoder, to find what means the same; nothing here trains."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from rollwright.learner.errors import LearnerError

__all__ = ["encode_texts"]

_AT_ONCE = 64
_MOST_TOKENS = 512


def encode_texts(folder: Path, texts: Sequence[str]) -> NDArray[np.float32]:
    """A vector for each text: the mean of the encoder's last states, or its first where the folder says so.

    Args:
        folder: of an encoder that `transformers` or sentence-transformers stored; nothing is fetched.
        texts: any number.

    Returns:
        (texts, size) float32.

    Raises:
        LearnerError: where no encoder can be loaded from there.
    """
    try:
        tokenizer = cast("Any", AutoTokenizer.from_pretrained(folder, local_files_only=True))
        model = cast("Any", AutoModel.from_pretrained(folder, local_files_only=True))
    except (OSError, ValueError, KeyError) as error:
        raise LearnerError(
            f"no encoder can be loaded from {folder}: {str(error).splitlines()[0]} Give the folder of an encoder that "
            "transformers or sentence-transformers stored, with its tokenizer."
        ) from error
    model.eval()
    takes_first = _takes_first(folder)
    found: list[NDArray[np.float32]] = []
    order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
    with torch.inference_mode():
        for begin in range(0, len(order), _AT_ONCE):
            part = [texts[place] for place in order[begin : begin + _AT_ONCE]]
            tokens = tokenizer(part, padding=True, truncation=True, max_length=_MOST_TOKENS, return_tensors="pt")
            states = model(**tokens).last_hidden_state
            mask = tokens["attention_mask"].unsqueeze(-1).to(states.dtype)
            pooled = states[:, 0] if takes_first else (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            found.append(pooled.float().numpy())
    vectors = np.concatenate(found) if found else np.zeros((0, 1), dtype=np.float32)
    back = np.empty(len(order), dtype=np.int64)
    back[np.array(order, dtype=np.int64)] = np.arange(len(order))
    return vectors[back]


def _takes_first(folder: Path) -> bool:
    """Whether sentence-transformers would take the state of the first token instead of the mean."""
    settings = folder / "1_Pooling" / "config.json"
    if not settings.is_file():
        return False
    stored = cast("dict[str, object]", json.loads(settings.read_text(encoding="utf-8")))
    return stored.get("pooling_mode_cls_token") is True
