"""A reward model from transformers: a sequence classifier with one output, tokens in and one number out."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import torch
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from rollwright.learner.errors import ModelError
from rollwright.record import Ids

__all__ = ["ScalarModel", "load_scalar_model", "scalar_model_of"]


class ScalarModel:
    """Scores rows one by one in float32, so that no score depends on what stands beside it."""

    def __init__(self, model: PreTrainedModel, revision: str) -> None:
        """Store a model that is ready; see `scalar_model_of`."""
        self._model = model
        self._revision = revision

    @property
    def revision(self) -> str:
        """Digest of the weights."""
        return self._revision

    @property
    def max_tokens(self) -> int:
        """Longest row."""
        return int(self._model.config.max_position_embeddings)

    def score(self, rows: Sequence[Ids]) -> tuple[float, ...]:
        """One number a row.

        Args:
            rows: whole conversations; one longer than `max_tokens` loses its first tokens.
        """
        with torch.inference_mode():
            return tuple(self._score(row[-self.max_tokens :]) for row in rows)

    def _score(self, row: Ids) -> float:
        token_ids = torch.tensor(row.tolist(), dtype=torch.int64)[None]
        logits = self._model(input_ids=token_ids, attention_mask=torch.ones_like(token_ids)).logits
        return float(logits[0, 0])


def load_scalar_model(folder: Path) -> ScalarModel:
    """Read a folder that transformers wrote.

    Raises:
        ModelError: where there is none, or its head has other than one output.
    """
    if not (folder / "config.json").is_file():
        raise ModelError(f"{folder} holds no model; give a folder with config.json and safetensors weights.")
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32, use_safetensors=True)
    return scalar_model_of(cast("PreTrainedModel", model))


def scalar_model_of(model: PreTrainedModel) -> ScalarModel:
    """A model that stands in memory; it is put into evaluation mode.

    Raises:
        ModelError: where its head has other than one output.
    """
    if model.config.num_labels != 1:
        raise ModelError(
            f"the reward model has {model.config.num_labels} outputs; a scalar reward needs one (num_labels=1)."
        )
    model.eval()
    whole = hashlib.sha256()
    for name, tensor in sorted(model.state_dict().items()):
        whole.update(name.encode())
        whole.update(tensor.detach().to(torch.float32).contiguous().numpy().tobytes())
    return ScalarModel(model, whole.hexdigest()[:16])
