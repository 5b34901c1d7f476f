"""A model that scores micro-batches: hidden states by the packed or the padded path, then scores, chunk by chunk."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.utils import deterministic as fill
from transformers import PreTrainedModel

from rollwright.batches.layout import MicroBatch
from rollwright.learner.errors import LearnerError, ModelError
from rollwright.learner.logprobs import TokenScores, predictors_of, score_tokens
from rollwright.learner.models import Precision
from rollwright.learner.packed import (
    PackedRows,
    has_packed_path,
    pack_rows,
    packed_hidden,
    padded_hidden,
    take_states,
    use_packed_attention,
)

__all__ = ["Path", "Scorer", "deterministic", "make_scorer"]

PROBE_LENGTHS = (1, 9, 4)
PROBE_TOLERANCE = 1e-3
"""Of the largest logit: far above rounding, far below what a missed scale or a leak between rows does."""


class Path(Enum):
    """How rows go through the model."""

    PACKED = "packed"
    PADDED = "padded"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scorer:
    """A model with the way its rows are computed."""

    model: PreTrainedModel
    path: Path
    precision: Precision
    """Of the products in the model; weights, their gradients and logits are fp32 in either."""

    @property
    def head(self) -> nn.Linear:
        """The output embedding."""
        head = self.model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            raise ModelError(
                f"{type(self.model).__name__} has no linear output head; such a model is not trained here."
            )
        return head

    def score(self, micro: MicroBatch, places: Tensor) -> TokenScores:
        """Log-probabilities and entropies of the tokens at `places`.

        Args:
            micro: whole rows.
            places: (n,) int64 places in its stream, none the first of a row.

        Returns:
            (n,) each, at the temperature of each token; with a gradient where gradients are on.
        """
        return self.score_states(self.states(micro, places), micro, places)

    def states(self, micro: MicroBatch, places: Tensor) -> Tensor:
        """(n, h) the hidden states that predict the tokens at `places`; as for `score`."""
        if micro.support is not None:
            raise LearnerError(
                "the batch was sampled from a truncated distribution (top-p, top-k or min-p); training renormalises "
                "over the whole vocabulary. Sample with top_p=1, top_k=0, min_p=0, or train on other data."
            )
        rows = pack_rows(micro.token_ids, micro.row_offsets)
        return take_states(self.hidden(micro.token_ids, micro.position_ids, rows), rows, predictors_of(places))

    def score_states(self, states: Tensor, micro: MicroBatch, places: Tensor) -> TokenScores:
        """The same scores from what `states` gave."""
        return score_tokens(
            states, self.head.weight, micro.token_ids[places], micro.temperature[places], self.head.bias
        )

    def hidden(self, token_ids: Tensor, position_ids: Tensor, rows: PackedRows) -> Tensor:
        """The last hidden state of every distinct token, by the model's path and precision.

        Args:
            token_ids: (t,) int64.
            position_ids: (t,) int64, from 0 in every row.
            rows: of the same stream.

        Returns:
            (u, h); `rows.state_of` says whose they are.
        """
        with torch.autocast(token_ids.device.type, torch.bfloat16, enabled=self.precision is Precision.BF16):
            match self.path:
                case Path.PACKED:
                    return packed_hidden(self.model, token_ids, position_ids, rows)
                case Path.PADDED:
                    return padded_hidden(self.model, token_ids, rows)
                case _:
                    assert_never(self.path)


def make_scorer(model: PreTrainedModel, precision: Precision = Precision.FP32) -> Scorer:
    """Prepare a model and prove on a few tokens that the path gives its own logits.

    Args:
        model: changed in place: fp32 weights, evaluation mode, the attention of its path.
        precision: of the products.

    Returns:
        A scorer on the packed path where the model's family has one, else on the padded path (its `path` says which).
    """
    model.float().eval()
    plain = _plain_logits(model)
    path = Path.PACKED if has_packed_path(model) else Path.PADDED
    if path is Path.PACKED:
        use_packed_attention(model)
    scorer = Scorer(model=model, path=path, precision=precision)
    _probe(scorer, plain)
    return scorer


@contextmanager
def deterministic(device: torch.device) -> Generator[None]:
    """Only algorithms whose sums have one order, on a CPU. On other devices the order is not promised.

    The stubs of torch lack `fill_uninitialized_memory`, which would write NaN into every new buffer: slow.
    """
    was_on = torch.are_deterministic_algorithms_enabled()
    was_filling = fill.fill_uninitialized_memory  # pyright: ignore[reportAttributeAccessIssue] - not in its stubs
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True)  # noqa: FBT003 - torch's own
        fill.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue] - not in its stubs
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on)
        fill.fill_uninitialized_memory = was_filling  # pyright: ignore[reportAttributeAccessIssue] - not in its stubs


def _probe_ids(model: PreTrainedModel) -> list[Tensor]:
    vocab: int = model.config.get_text_config().vocab_size
    return [
        (torch.arange(length) * 7 + row + 1).remainder(vocab).to(model.device)
        for row, length in enumerate(PROBE_LENGTHS)
    ]


def _plain_logits(model: PreTrainedModel) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(input_ids=ids[None], use_cache=False).logits[0] for ids in _probe_ids(model)])


def _probe(scorer: Scorer, plain: Tensor) -> None:
    ids = _probe_ids(scorer.model)
    offsets = torch.tensor([0, *PROBE_LENGTHS]).cumsum(0)
    tokens, positions = torch.cat(ids), torch.cat([torch.arange(len(row)) for row in ids]).to(plain.device)
    rows = pack_rows(tokens, offsets)
    with torch.no_grad():
        if scorer.path is Path.PACKED:
            hidden = packed_hidden(scorer.model, tokens, positions, rows)
        else:
            hidden = padded_hidden(scorer.model, tokens, rows)
        worst = float((scorer.head(hidden[rows.state_of]) - plain).abs().max())
    allowed = PROBE_TOLERANCE * (1 + float(plain.abs().max()))
    if not worst <= allowed:
        raise ModelError(
            f"{type(scorer.model).__name__} gives other logits than its head makes from its last hidden state on the "
            f"{scorer.path.value} path (by {worst:.3g}, allowed {allowed:.3g}): it scales or caps its logits, or its "
            "layers mix rows. Such a model is not trained here; dense Llama- and Qwen-family models are."
        )
