"""Credit against the baseline of least variance at each token (M10)."""

from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import (
    UNSCORED,
    ZERO_CONTRAST,
    broadcast_to_tokens,
    extremes_over,
    group_statistics,
    places_of,
    rows_where,
)
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditInputs
from rollwright.algorithms.rows import row_sum
from rollwright.algorithms.scans import running_sums
from rollwright.algorithms.streams import logprobs_of, value_of

__all__ = ["optimal_token_baseline", "score_norm_sums"]


def optimal_token_baseline(
    inputs: CreditInputs, *, eps: float = 1e-8, tail: Literal["zero", "own"] = "zero", max_ratio: float | None = None
) -> Credit:
    """Return to go minus Σ G·W / (ΣW + ε) over the rows of the group that are alive at the token (public: verl).

    W is `score_norm_sums`; t counts action tokens of the row, whatever a tool wrote between them.

    Args:
        inputs: rows of whole groups; rewards (R,) float64, NaN where unscored; step_rewards (N,) float64; proximal
            log-probabilities, and `sum_squared_probabilities` among the values.
        eps: beside ΣW, at least 0.
        tail: the baseline where one row alone is alive: `zero` leaves its return, `own` its return itself, so that
            the tail has no credit.
        max_ratio: cap of proximal/behavior in W; None weighs it as 1.

    Returns:
        (N,) float64 in verifier units. A group of one, one reward level without rewards on the way, and an unscored
        row get 0 and a reason.
    """
    if not eps >= 0:
        raise ObjectiveError(f"eps is {eps}; it is at least 0.")
    has_contrast, is_scored = _contrast(inputs)
    offsets = inputs.row_offsets
    place = _places_at_ordinals(inputs)
    is_alive = broadcast_to_tokens(has_contrast, offsets)
    weights = torch.where(is_alive, score_norm_sums(inputs, max_ratio=max_ratio), 0.0)
    returns = return_to_go(inputs).advantages
    start = weights.new_zeros(int(place.max()) + 1 if len(place) else 0)
    total = start.index_add(0, place, weights)
    baseline = start.index_add(0, place, weights * returns) / torch.where(total > 0, total + eps, 1.0)
    if tail == "zero":
        baseline = torch.where(torch.bincount(place[is_alive], minlength=len(start)) > 1, baseline, 0.0)
    return Credit(
        advantages=torch.where(is_alive, returns - baseline[place], 0.0),
        value_targets=None,
        untrained={
            **dict.fromkeys(rows_where(is_scored & ~has_contrast), ZERO_CONTRAST),
            **dict.fromkeys(rows_where(~is_scored), UNSCORED),
        },
    )


def score_norm_sums(inputs: CreditInputs, *, max_ratio: float | None = None) -> Tensor:
    """W_t = Σ_{j≤t} ρ_j²·(1 − 2π_j + Σπ²), a stand-in for the squared norm of the row's score up to the token.

    Args:
        inputs: rows; proximal log-probabilities (N,), `sum_squared_probabilities` (N,) among the values.
        max_ratio: ρ is proximal/behavior, cut at this; None is ρ = 1.

    Returns:
        (N,) float64, not decreasing along a row; a token whose scores are not finite adds nothing.
    """
    proximal = logprobs_of(inputs, "proximal").to(torch.float64)
    norms = torch.add(value_of(inputs, "sum_squared_probabilities") + 1.0, proximal.exp(), alpha=-2.0)
    if max_ratio is not None:
        if max_ratio <= 0:
            raise ObjectiveError(f"max_ratio is {max_ratio}; it is above 0, or None, which takes ratios as 1.")
        ratio = (proximal - logprobs_of(inputs, "behavior")).clamp(-20.0, 20.0).exp().clamp(max=max_ratio)
        norms = norms * ratio.square()
    return running_sums(norms.nan_to_num(nan=0.0, posinf=0.0, neginf=0.0), inputs.row_offsets)


def _contrast(inputs: CreditInputs) -> tuple[Tensor, Tensor]:
    """(R,) bool: whether the row has something to be compared with, and whether it is scored.

    Rewards on the way are contrast too: level outcomes alone do not make a level group (E2).
    """
    statistics = group_statistics(inputs)
    if bool(inputs.step_rewards.any()):
        on_the_way = row_sum(inputs.step_rewards.abs(), inputs.row_offsets)
        most = extremes_over(on_the_way, places_of(inputs.group_index), statistics.is_scored, "amax")
        statistics = replace(statistics, has_zero_variance=statistics.has_zero_variance & (most == 0))
    return statistics.has_contrast, statistics.is_scored


def _places_at_ordinals(inputs: CreditInputs) -> Tensor:
    """(N,) int64, equal for tokens of one group that are the same number of action tokens from their row's start."""
    lengths = inputs.row_offsets.diff()
    group = places_of(inputs.group_index)
    longest = lengths.new_zeros(len(lengths)).scatter_reduce(0, group, lengths, "amax")
    first = longest.cumsum(0) - longest
    shift = broadcast_to_tokens(first[group] - inputs.row_offsets[:-1], inputs.row_offsets)
    return torch.arange(len(shift)) + shift
