"""Small batches for the tests of the mathematics: rows of action tokens, and packed pieces of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from rollwright.algorithms import CreditInputs, LossTerms, Objective, TokenStreams, kept_tokens, loss_terms
from rollwright.algorithms.stages import make_stages

__all__ = ["Batch", "credit_inputs", "gradient_of", "made_of", "pack", "run", "weights_of"]


def credit_inputs(
    rewards: Sequence[float | None],
    *,
    groups: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    truncated: Sequence[int] | None = None,
    episodes: Sequence[int] | None = None,
    step_rewards: Sequence[float] | None = None,
) -> CreditInputs:
    """Rows with these rewards; by default one group, one token a row, one episode a row."""
    num_rows = len(rewards)
    lengths = [1] * num_rows if lengths is None else lengths
    offsets = torch.tensor([0, *lengths], dtype=torch.int64).cumsum(0)
    num_tokens = int(offsets[-1])
    return CreditInputs(
        rewards=torch.tensor([torch.nan if r is None else float(r) for r in rewards], dtype=torch.float64),
        group_index=torch.tensor([0] * num_rows if groups is None else list(groups), dtype=torch.int64),
        source_index=torch.zeros(num_rows, dtype=torch.int64),
        episode_index=torch.tensor(list(range(num_rows)) if episodes is None else list(episodes), dtype=torch.int64),
        row_offsets=offsets,
        is_truncated=torch.tensor([0] * num_rows if truncated is None else list(truncated), dtype=torch.bool),
        step_rewards=torch.zeros(num_tokens, dtype=torch.float64)
        if step_rewards is None
        else torch.tensor(step_rewards, dtype=torch.float64),
        turn_index=torch.zeros(num_tokens, dtype=torch.int64),
        state_index=torch.full((num_tokens,), -1, dtype=torch.int64),
        logprobs={},
        values={},
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """An update: rows with their credit inputs, and one (N,) value a trained token for every stream."""

    inputs: CreditInputs
    logprobs: Mapping[str, Tensor]
    entropy: Tensor | None = None

    @property
    def lengths(self) -> list[int]:
        return self.inputs.row_offsets.diff().tolist()


def weights_of(objective: Objective, batch: Batch) -> dict[str, Tensor]:
    """Component to (N,) weights, made once on the whole update."""
    rules = {objective.component: objective.weights, **{r.component: r.weights for r in objective.regularizers}}
    keep = None
    if any(rule.counting == "kept" for rule in rules.values()):
        everything = pack(objective, batch, range(len(batch.lengths)), weights=None)
        keep = kept_tokens(objective, everything.streams).keep[everything.streams.action_mask]
    return {name: rule(batch.inputs, keep if rule.counting == "kept" else None) for name, rule in rules.items()}


def made_of(objective: Objective, batch: Batch, weights: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Stage to (N,) values, made once on the whole update."""
    if not objective.stages:
        return {}
    everything = pack(replace(objective, stages=()), batch, range(len(batch.lengths)), weights=weights).streams
    made = make_stages(objective, everything, torch.Generator().manual_seed(1))
    return {name: stream[everything.action_mask] for name, stream in made.items()}


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Some rows of a batch as a piece."""

    streams: TokenStreams
    regularizer_weights: dict[str, Tensor]
    token_index: Tensor
    """(T,) which trained token of the batch stands here; -1 elsewhere."""


def pack(
    objective: Objective,
    batch: Batch,
    rows: Sequence[int],
    *,
    weights: Mapping[str, Tensor] | None,
    gaps: int = 1,
    padding: int = 0,
    filler: float = float("nan"),
) -> Packed:
    """Lay rows out with `gaps` untrained tokens before each action token and `padding` behind each row."""
    offsets = batch.inputs.row_offsets.tolist()
    index: list[int] = []
    ends = [0]
    for row in rows:
        for token in range(offsets[row], offsets[row + 1]):
            index += [-1] * gaps + [token]
        index += [-1] * padding
        ends.append(len(index))
    token_index = torch.tensor(index, dtype=torch.int64)
    mask = token_index >= 0
    advantages = objective.credit(batch.inputs).advantages

    def spread(values: Tensor) -> Tensor:
        safe = values if len(values) else values.new_zeros(1)
        return torch.where(mask, safe[token_index.clamp(min=0)], torch.tensor(filler, dtype=values.dtype))

    zeros = torch.zeros(len(advantages), dtype=torch.float64)
    made = weights or {}
    return Packed(
        streams=TokenStreams(
            row_offsets=torch.tensor(ends),
            action_mask=mask,
            advantages=spread(advantages),
            token_weights=spread(made.get(objective.component, zeros)),
            policy_versions=torch.where(mask, 0, -1).to(torch.int32),
            logprobs={name: spread(values) for name, values in batch.logprobs.items()},
            values={},
            entropy=None if batch.entropy is None else spread(batch.entropy),
            made={name: spread(values) for name, values in made_of(objective, batch, weights).items()},
        ),
        regularizer_weights={name: spread(w) for name, w in made.items() if name != objective.component},
        token_index=token_index,
    )


def run(objective: Objective, packed: Packed) -> tuple[LossTerms, Tensor]:
    """Terms of a piece, and the gradient of its loss in `current` at every place of the piece."""
    current = packed.streams.logprobs["current"].clone().requires_grad_()
    streams = replace(packed.streams, logprobs={**packed.streams.logprobs, "current": current})
    terms = loss_terms(objective, streams, packed.regularizer_weights)
    (gradient,) = torch.autograd.grad(terms.loss, current)
    return terms, gradient


def gradient_of(objective: Objective, batch: Batch, pieces: Sequence[Packed]) -> tuple[float, Tensor]:
    """Loss and (N,) gradient of a batch that was cut into these pieces."""
    loss = 0.0
    total = torch.zeros(int(batch.inputs.row_offsets[-1]), dtype=torch.float64)
    for packed in pieces:
        terms, gradient = run(objective, packed)
        loss += float(terms.loss.detach())
        assert not gradient[~packed.streams.action_mask].any()
        here = packed.streams.action_mask
        total[packed.token_index[here]] += gradient[here].to(torch.float64)
    return loss, total
