"""Denominators as per-token weights, made once on all rows of an update (M72 to M76, M79), and the rule of M80.

Each is a frozen record: called, it gives weights; its closed form says what they sum to, from row lengths alone, so
that an audit can find a wrong weight. A row without trained tokens is not counted anywhere (E3). Under `kept`, tokens
that a correction cut weigh 0 and leave the counts; under `structural` they stay in both.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import count_groups, places_of
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Counting, CreditInputs, RowLengths, WeightFn

__all__ = [
    "EpisodeMean",
    "FixedLength",
    "PromptMean",
    "ResponseMean",
    "SequenceSum",
    "TokenMean",
    "counted_rows",
    "reciprocal",
    "row_lengths",
    "spread_over_tokens",
]


def row_lengths(inputs: CreditInputs, keep: Tensor | None) -> RowLengths:
    """Count the tokens of each row that a denominator counts.

    Args:
        inputs: rows of an update; `row_offsets` (R + 1,) int64 into its N trained tokens.
        keep: (N,) bool under `kept`; None counts every trained token.

    Returns:
        The counts, (R,) int64, beside the indices of the rows.
    """
    if keep is None:
        counts = inputs.row_offsets.diff()
    else:
        running = torch.cat([inputs.row_offsets.new_zeros(1), keep.to(torch.int64).cumsum(0)])
        counts = running[inputs.row_offsets].diff()
    return RowLengths(
        num_tokens=counts,
        group_index=inputs.group_index,
        source_index=inputs.source_index,
        episode_index=inputs.episode_index,
        rewards=inputs.rewards,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMean:
    """Every trained token of the update weighs 1/N (M73, DAPO): long rows have more mass."""

    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "token_mean"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/N."""
        rows = counted_rows(self, inputs, keep)
        return spread_over_tokens(inputs, keep, reciprocal(rows.num_tokens.sum()).expand(len(rows.num_tokens)))

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without tokens."""
        return 1.0 if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """N, trained tokens."""
        return float(_num_tokens(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseMean:
    """Every row weighs 1/B, shared evenly by its tokens (M72, GRPO): long wrong answers are diluted."""

    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "response_mean"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/(B·n_i), B counting rows with tokens."""
        rows = counted_rows(self, inputs, keep)
        return spread_over_tokens(inputs, keep, reciprocal(rows.num_tokens * _num_rows(rows)))

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without tokens."""
        return 1.0 if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """B, rows with tokens."""
        return float(_num_rows(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLength:
    """Every trained token weighs 1/(B·L) with L a constant of the recipe, never a padded width (M74, Dr.GRPO)."""

    length: int
    """L, tokens."""
    counting: Counting = "structural"

    def __post_init__(self) -> None:
        """Refuse a length that cannot divide."""
        if self.length < 1:
            raise ObjectiveError(f"fixed_length has length {self.length}; it needs the longest response, at least 1.")

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "fixed_length"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/(B·L), B counting rows with tokens."""
        rows = counted_rows(self, inputs, keep)
        return spread_over_tokens(
            inputs, keep, reciprocal(torch.full_like(rows.num_tokens, self.length * _num_rows(rows)))
        )

    def weight_sum(self, rows: RowLengths) -> float:
        """N/(B·L)."""
        return _num_tokens(rows) / (self.length * _num_rows(rows)) if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """B·L."""
        return float(_num_rows(rows) * self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceSum:
    """Every trained token weighs 1/B (M75): the sum over a row, averaged over rows; the unbiased REINFORCE form."""

    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "sequence_sum"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/B, B counting rows with tokens."""
        rows = counted_rows(self, inputs, keep)
        return spread_over_tokens(inputs, keep, reciprocal(torch.full_like(rows.num_tokens, _num_rows(rows))))

    def weight_sum(self, rows: RowLengths) -> float:
        """N/B."""
        return _num_tokens(rows) / _num_rows(rows) if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """B, rows with tokens."""
        return float(_num_rows(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMean:
    """Every prompt weighs 1/P, whatever the number of its rows that are left (M76)."""

    within: Literal["response", "token"] = "response"
    """How a prompt's mass is shared: evenly by its rows and then by their tokens, or evenly by its tokens."""
    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "prompt_mean"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/(P·G_g·n_i) or 1/(P·N_g); G_g counts rows with tokens, P prompts with such a row."""
        rows = counted_rows(self, inputs, keep)
        if self.within == "response":
            shares = rows.num_tokens * _total_of(rows.group_index, (rows.num_tokens > 0).to(torch.int64))
        else:
            shares = _total_of(rows.group_index, rows.num_tokens)
        return spread_over_tokens(inputs, keep, reciprocal(shares * _num_prompts(rows)))

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without tokens."""
        return 1.0 if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """P, prompts with a trained token."""
        return float(_num_prompts(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeMean:
    """Every episode weighs 1/E, shared evenly by the tokens of all its rows: each conversation counts alike."""

    counting: Counting = "structural"

    @property
    def name(self) -> str:
        """The name in recipes and receipts."""
        return "episode_mean"

    def __call__(self, inputs: CreditInputs, keep: Tensor | None) -> Tensor:
        """(N,) float64: 1/(E·N_e), E counting episodes with tokens."""
        rows = counted_rows(self, inputs, keep)
        shares = _total_of(rows.episode_index, rows.num_tokens) * _num_episodes(rows)
        return spread_over_tokens(inputs, keep, reciprocal(shares))

    def weight_sum(self, rows: RowLengths) -> float:
        """1, or 0 without tokens."""
        return 1.0 if _num_tokens(rows) else 0.0

    def denominator(self, rows: RowLengths) -> float:
        """E, episodes with a trained token."""
        return float(_num_episodes(rows))


def counted_rows(weights: WeightFn, inputs: CreditInputs, keep: Tensor | None) -> RowLengths:
    """Row lengths under the rule of the denominator, which decides whether a keep mask is due."""
    match weights.counting, keep:
        case "structural", Tensor():
            raise ObjectiveError(
                f"{weights.name} counts structural tokens but was given a keep mask; pass None, or choose `kept`."
            )
        case "kept", None:
            raise ObjectiveError(
                f"{weights.name} counts kept tokens and needs the keep mask of the update; make it from behavior and "
                "proximal before the weights."
            )
        case _:
            return row_lengths(inputs, keep)


def spread_over_tokens(inputs: CreditInputs, keep: Tensor | None, per_row: Tensor) -> Tensor:
    """(N,) from (R,) weights; 0 where a token was cut under `kept`."""
    weights = per_row.repeat_interleave(inputs.row_offsets.diff())
    return weights if keep is None else weights * keep


def reciprocal(counts: Tensor) -> Tensor:
    """1/count in float64; 0 where the count is 0."""
    exact = counts.to(torch.float64)
    return torch.where(exact > 0, 1.0 / exact.clamp(min=1.0), exact.new_zeros(()))


def _num_tokens(rows: RowLengths) -> int:
    return int(rows.num_tokens.sum())


def _num_rows(rows: RowLengths) -> int:
    return int((rows.num_tokens > 0).sum())


def _num_prompts(rows: RowLengths) -> int:
    return count_groups(rows.group_index[rows.num_tokens > 0])


def _num_episodes(rows: RowLengths) -> int:
    return count_groups(rows.episode_index[rows.num_tokens > 0])


def _total_of(index: Tensor, counts: Tensor) -> Tensor:
    """(R,) int64: the total of (R,) `counts` over the rows whose (R,) `index` is the row's own."""
    place = places_of(index)
    return counts.new_zeros(len(place)).index_add(0, place, counts)[place]
