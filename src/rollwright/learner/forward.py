"""A model that scores micro-batches: hidden states by one of three paths, then scores, chunk by chunk.

Dense families go through the layers of this room, other families with a packed path through their own layers and this
room's attention, all others through `transformers` alone, rows padded. Which it is, `Scorer.path` says.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

import torch
from torch import Tensor, nn
from torch.utils import deterministic as fill
from transformers import PreTrainedModel

from rollwright.batches import Counted
from rollwright.batches.layout import MicroBatch
from rollwright.learner.dense import Activations, dense_hidden, why_not_dense
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
"""Of the largest logit or gradient: far above rounding, far below what a missed scale or a leak between rows does."""


class Path(Enum):
    """How rows go through the model."""

    DENSE = "dense"
    """Packed, through layers of our own: those of dense families."""
    PACKED = "packed"
    """Through the model's own layers, and our attention."""
    PADDED = "padded"
    """Through the model as it is."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scorer:
    """A model with the way its rows are computed."""

    model: PreTrainedModel
    path: Path
    precision: Precision
    """Of the products in the model; weights, their gradients and logits are fp32 in either."""
    activations: Activations = Activations.KEPT
    """Kept for the backward pass or made again there; `KEPT` on every path but the dense one."""

    @property
    def head(self) -> nn.Linear:
        """The output embedding."""
        head = self.model.get_output_embeddings()
        if not isinstance(head, nn.Linear):
            raise ModelError(
                f"{type(self.model).__name__} has no linear output head; such a model is not trained here."
            )
        return head

    @property
    def counted(self) -> Counted:
        """What the budget of a micro-batch counts: padded rows are computed whole, whatever they share."""
        return Counted.ROWS if self.path is Path.PADDED else Counted.DISTINCT

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
        if self.path is Path.DENSE:
            return dense_hidden(self.model, token_ids, position_ids, rows, self.precision.dtype, self.activations)
        with torch.autocast(token_ids.device.type, torch.bfloat16, enabled=self.precision is Precision.BF16):
            match self.path:
                case Path.PACKED:
                    return packed_hidden(self.model, token_ids, position_ids, rows)
                case Path.PADDED:
                    return padded_hidden(self.model, token_ids, rows)
                case _:
                    assert_never(self.path)


def make_scorer(
    model: PreTrainedModel, precision: Precision = Precision.FP32, activations: Activations = Activations.KEPT
) -> Scorer:
    """Prepare a model and prove on a few tokens that the path gives its own logits, and on our layers its gradients.

    Args:
        model: changed in place: fp32 weights, evaluation mode, on the packed path our attention.
        precision: of the products.
        activations: what the backward pass finds; only the dense path makes them again.

    Returns:
        A scorer on the dense path where the model is of a dense family, else on the packed or the padded one (its
        `path` says which).
    """
    model.float().eval()
    path = _path_of(model)
    if activations is not Activations.KEPT and path is not Path.DENSE:
        raise ModelError(
            f"the activations of {type(model).__name__} cannot be {activations.value}: {why_not_dense(model)}, and "
            "only dense families go through layers that can. Keep them, and lower token_budget if memory is short."
        )
    plain, gradients = _plain_logits(model), list[Tensor]()
    if path is Path.DENSE:
        gradients = _gradients(model, [_logits_of(model, ids) for ids in _probe_ids(model)])
    if path is Path.PACKED:
        use_packed_attention(model)
    scorer = Scorer(model=model, path=path, precision=precision, activations=activations)
    _probe(replace(scorer, precision=Precision.FP32), plain, gradients)
    return scorer


def _path_of(model: PreTrainedModel) -> Path:
    if why_not_dense(model) is None:
        return Path.DENSE
    return Path.PACKED if has_packed_path(model) else Path.PADDED


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


def _logits_of(model: PreTrainedModel, ids: Tensor) -> Tensor:
    return model(input_ids=ids[None], use_cache=False).logits[0]


def _plain_logits(model: PreTrainedModel) -> Tensor:
    with torch.no_grad():
        return torch.cat([_logits_of(model, ids) for ids in _probe_ids(model)])


def _gradients(model: PreTrainedModel, logits: Sequence[Tensor]) -> list[Tensor]:
    """Of some sum of the logits, for every parameter that trains; what the parameters hold stays as it is."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        return []
    table = torch.cat(list(logits))
    weights = torch.arange(table.numel(), dtype=table.dtype, device=table.device).cos_().view_as(table)
    return list(torch.autograd.grad((table * weights).sum(), parameters, materialize_grads=True))


def _probe(scorer: Scorer, plain: Tensor, gradients: Sequence[Tensor]) -> None:
    """Compare the scorer with the model's own logits, and with its gradients where there are any."""
    model = scorer.model
    ids = _probe_ids(model)
    offsets = torch.tensor([0, *PROBE_LENGTHS]).cumsum(0)
    tokens, positions = torch.cat(ids), torch.cat([torch.arange(len(row)) for row in ids]).to(plain.device)
    rows = pack_rows(tokens, offsets)
    with torch.set_grad_enabled(bool(gradients)):
        logits = scorer.head(scorer.hidden(tokens, positions, rows)[rows.state_of])
    worst, largest = float((logits.detach() - plain).abs().max()), float(plain.abs().max())
    allowed = PROBE_TOLERANCE * (1 + largest)
    if not worst <= allowed:
        raise ModelError(
            f"{type(model).__name__} gives other logits than its head makes from its last hidden state on the "
            f"{scorer.path.value} path (by {worst:.3g}, allowed {allowed:.3g}): it scales or caps its logits, or its "
            "layers mix rows. Such a model is not trained here; dense Llama- and Qwen-family models are."
        )
    if gradients:
        _compare_gradients(scorer, _gradients(model, [logits]), gradients)


def _compare_gradients(scorer: Scorer, found: Sequence[Tensor], plain: Sequence[Tensor]) -> None:
    allowed = PROBE_TOLERANCE * max(float(gradient.abs().max()) for gradient in plain)
    names = [name for name, parameter in scorer.model.named_parameters() if parameter.requires_grad]
    for name, ours, theirs in zip(names, found, plain, strict=True):
        worst = float((ours - theirs).abs().max())
        if not worst <= allowed:
            raise ModelError(
                f"{type(scorer.model).__name__} gives {name} another gradient than the {scorer.path.value} path does "
                f"(by {worst:.3g}, allowed {allowed:.3g}): its layers are not those of its family. Such a model is not "
                "trained here; give one with the layers that transformers has for it."
            )
