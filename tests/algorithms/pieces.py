"""Small batches for the tests of the mathematics: rows of action tokens, and packed pieces of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from rollwright.algorithms import Credit, CreditInputs, LossTerms, Objective, TokenStreams, kept_tokens, loss_terms
from rollwright.algorithms.credit.groups import ZERO_CONTRAST
from rollwright.algorithms.stages import make_stages

__all__ = [
    "Batch",
    "Packed",
    "Update",
    "at",
    "credit_inputs",
    "gradient_of",
    "lay_out",
    "made_of",
    "pack",
    "run",
    "scatter",
    "trained_rows",
    "update_of",
    "weights_of",
]


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
    """An update: rows with their credit inputs, and one (N,) value an action token for every stream."""

    inputs: CreditInputs
    logprobs: Mapping[str, Tensor]
    entropy: Tensor | None = None
    values: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def lengths(self) -> list[int]:
        return self.inputs.row_offsets.diff().tolist()


@dataclass(frozen=True, kw_only=True)
class Update:
    """What a planner makes of a batch, once on the whole; (N,) each."""

    batch: Batch
    credit: Credit
    weights: Mapping[str, Tensor]
    """Of each component but the main one."""
    main_weights: Tensor
    made: Mapping[str, Tensor]
    is_trained: Tensor
    """False on the tokens of rows that a rule withheld."""


def update_of(objective: Objective, batch: Batch) -> Update:
    """Credit, weights and stages as a run makes them: rows that were withheld leave the denominators."""
    credit = objective.credit(batch.inputs)
    is_trained = trained_rows(credit, len(batch.lengths)).repeat_interleave(batch.inputs.row_offsets.diff())
    bare = _update(objective, batch, credit, is_trained)
    running = torch.cat([torch.zeros(1, dtype=torch.int64), is_trained.to(torch.int64).cumsum(0)])
    rows = replace(
        batch.inputs,
        row_offsets=running[batch.inputs.row_offsets],
        step_rewards=batch.inputs.step_rewards[is_trained],
        turn_index=batch.inputs.turn_index[is_trained],
        state_index=batch.inputs.state_index[is_trained],
    )
    weights = {name: scatter(made, is_trained) for name, made in _weights(objective, rows, bare, is_trained).items()}
    weighed = replace(bare, weights=weights, main_weights=weights.pop(objective.component))
    return replace(weighed, made=_made(objective, weighed))


def trained_rows(credit: Credit, num_rows: int) -> Tensor:
    """(R,) bool, False where a rule withheld the row; rows without contrast stay."""
    withheld = [row for row, reason in credit.untrained.items() if reason != ZERO_CONTRAST]
    stays = torch.ones(num_rows, dtype=torch.bool)
    stays[withheld] = False
    return stays


def scatter(values: Tensor, mask: Tensor) -> Tensor:
    """(N,) float64 with the values where the mask is True, 0 elsewhere."""
    return torch.zeros(len(mask), dtype=torch.float64).masked_scatter(mask, values.to(torch.float64))


def weights_of(objective: Objective, batch: Batch) -> dict[str, Tensor]:
    """Component to (N,) weights, made once on the whole update, of which no row is withheld."""
    everything = torch.ones(int(batch.inputs.row_offsets[-1]), dtype=torch.bool)
    update = _update(objective, batch, objective.credit(batch.inputs), everything)
    return _weights(objective, batch.inputs, update, everything)


def made_of(objective: Objective, batch: Batch, weights: Mapping[str, Tensor] | None) -> dict[str, Tensor]:
    """Stage to (N,) values, made once on the whole update."""
    return dict(_made(objective, _of_weights(objective, batch, weights)))


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Some rows of a batch as a piece."""

    streams: TokenStreams
    regularizer_weights: dict[str, Tensor]
    token_index: Tensor
    """(T,) which action token of the batch stands here; -1 elsewhere."""


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
    update = _of_weights(objective, batch, weights)
    made = _made(objective, update)
    return lay_out(replace(update, made=made), rows, gaps=gaps, padding=padding, filler=filler)


def lay_out(
    update: Update, rows: Sequence[int], *, gaps: int = 1, padding: int = 0, filler: float = float("nan")
) -> Packed:
    """Some rows of an update as a piece; `filler` stands in every stream wherever nothing is trained."""
    batch = update.batch
    offsets, is_trained = batch.inputs.row_offsets.tolist(), update.is_trained.tolist()
    index: list[int] = []
    ends = [0]
    for row in rows:
        for token in range(offsets[row], offsets[row + 1]):
            index += [-1] * gaps + [token if is_trained[token] else -1]
        index += [-1] * padding
        ends.append(len(index))
    token_index = torch.tensor(index, dtype=torch.int64)
    mask = token_index >= 0
    places = token_index.clamp(min=0)

    def spread(values: Tensor) -> Tensor:
        safe = values if len(values) else values.new_zeros(1)
        left_out = torch.tensor(filler if values.is_floating_point() else 1, dtype=values.dtype)
        return torch.where(mask, safe[places], left_out)

    return Packed(
        streams=TokenStreams(
            row_offsets=torch.tensor(ends),
            action_mask=mask,
            advantages=spread(update.credit.advantages),
            token_weights=spread(update.main_weights),
            policy_versions=torch.where(mask, 0, -1).to(torch.int32),
            logprobs={name: spread(values) for name, values in batch.logprobs.items()},
            values={name: spread(values) for name, values in batch.values.items()},
            entropy=None if batch.entropy is None else spread(batch.entropy),
            made={name: spread(values) for name, values in update.made.items()},
        ),
        regularizer_weights={name: spread(weights) for name, weights in update.weights.items()},
        token_index=token_index,
    )


def at(streams: TokenStreams, current: Tensor) -> TokenStreams:
    """The streams of another policy: entropies and a critic's values move with its scores, in part.

    So one gradient shows what reaches any stream that is differentiated.
    """
    moved = current - streams.logprobs["current"]
    values = {name: one + 0.3 * moved if name == "current" else one for name, one in streams.values.items()}
    entropy = None if streams.entropy is None else streams.entropy - 0.5 * moved.to(streams.entropy.dtype)
    return replace(streams, logprobs={**streams.logprobs, "current": current}, values=values, entropy=entropy)


def run(objective: Objective, packed: Packed) -> tuple[LossTerms, Tensor]:
    """Terms of a piece, and the gradient of its loss in `current` at every place of the piece."""
    current = packed.streams.logprobs["current"].clone().requires_grad_()
    terms = loss_terms(objective, at(packed.streams, current), packed.regularizer_weights)
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


def _update(objective: Objective, batch: Batch, credit: Credit, is_trained: Tensor) -> Update:
    """Without weights and stages."""
    zeros = torch.zeros(len(is_trained), dtype=torch.float64)
    others = {one.component: zeros for one in objective.regularizers}
    return Update(batch=batch, credit=credit, weights=others, main_weights=zeros, made={}, is_trained=is_trained)


def _of_weights(objective: Objective, batch: Batch, weights: Mapping[str, Tensor] | None) -> Update:
    everything = torch.ones(int(batch.inputs.row_offsets[-1]), dtype=torch.bool)
    update = _update(objective, batch, objective.credit(batch.inputs), everything)
    if weights is None:
        return replace(update, weights={})
    others = {name: one for name, one in weights.items() if name != objective.component}
    return replace(update, weights=others, main_weights=weights[objective.component])


def _weights(objective: Objective, rows: CreditInputs, update: Update, is_trained: Tensor) -> dict[str, Tensor]:
    """Component to weights of the trained tokens."""
    rules = {objective.component: objective.weights, **{r.component: r.weights for r in objective.regularizers}}
    keep = None
    if any(rule.counting == "kept" for rule in rules.values()):
        kept = kept_tokens(objective, _all_rows(update).streams)
        keep = kept.keep[_all_rows(update).streams.action_mask]
    return {name: rule(rows, keep if rule.counting == "kept" else None) for name, rule in rules.items()}


def _made(objective: Objective, update: Update) -> Mapping[str, Tensor]:
    if not objective.stages:
        return {}
    everything = _all_rows(update)
    made = make_stages(objective, everything.streams, torch.Generator().manual_seed(1))
    return {name: _back(stream, everything.token_index, len(update.is_trained)) for name, stream in made.items()}


def _back(stream: Tensor, token_index: Tensor, num_tokens: int) -> Tensor:
    """(N,) from (T,)."""
    here = token_index >= 0
    return torch.zeros(num_tokens, dtype=stream.dtype).index_copy(0, token_index[here], stream[here])


def _all_rows(update: Update) -> Packed:
    """The whole update, with its scores before it."""
    packed = lay_out(update, range(len(update.batch.lengths)))
    before = {name: one for name, one in packed.streams.logprobs.items() if name != "current"}
    return replace(packed, streams=replace(packed.streams, logprobs=before))
