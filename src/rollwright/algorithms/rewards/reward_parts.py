"""Several parts of a reward as one credit: summed and then compared, or each compared and then summed (M119).

Parts stand in `values` as `part/<name>`, (R,) raw verifier units, NaN where a part gave nothing. A part that is NaN is
passed over; a row whose parts are all NaN, or whose reward is NaN, is unscored. A cost is a part of negative weight.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from rollwright.algorithms.credit.groups import (
    EQUAL_REWARDS,
    UNSCORED,
    ZERO_CONTRAST,
    broadcast_to_tokens,
    episode_shares,
    group_statistics,
    places_of,
    rows_where,
)
from rollwright.algorithms.credit.standardized import standardized_rewards
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import Credit, CreditFn, CreditInputs
from rollwright.algorithms.streams import value_of

__all__ = ["normalize_parts", "standardized_parts", "weigh_parts", "weighted_sum"]


def weigh_parts(inputs: CreditInputs, *, weights: Mapping[str, float], credit: CreditFn) -> Credit:
    """R = Σ w·part, then credit: a part of large scale decides the comparison.

    Args:
        inputs: rows with a value `part/<name>` for each weight.
        weights: by name of the part.
        credit: the estimator that follows.

    Returns:
        The estimator's credit of the sum.
    """
    return credit(replace(inputs, rewards=weighted_sum(_parts(inputs, weights), _numbers(weights))))


def normalize_parts(inputs: CreditInputs, *, weights: Mapping[str, float], ddof: int = 1, eps: float = 1e-4) -> Credit:
    """Each part in units of its group's spread, their weighted sum in units of the batch's (public: TRL).

    Args:
        inputs: rows of whole groups with a value `part/<name>` for each weight.
        weights: by name of the part; they weigh spreads, so that scales of parts do not matter.
        ddof: 1 divides squares by n − 1, 0 by n, in group and batch.
        eps: added to both standard deviations.

    Returns:
        (N,) float64 without unit. Rows in whose group no part has contrast get 0 and a reason and stand in no
        statistic; an episode counts once.
    """
    parts = _parts(inputs, weights)
    scores, has_contrast = standardized_parts(inputs, parts, ddof=ddof, eps=eps)
    is_scored = ~parts.isnan().all(dim=0)
    is_compared = has_contrast.any(dim=0)
    total = torch.where(is_compared, (scores * _numbers(weights)[:, None]).sum(dim=0), 0.0)
    return Credit(
        advantages=broadcast_to_tokens(_over_batch(inputs, total, is_compared, ddof, eps), inputs.row_offsets),
        value_targets=None,
        untrained={
            **dict.fromkeys(rows_where(is_scored & ~is_compared), ZERO_CONTRAST),
            **dict.fromkeys(rows_where(~is_scored), UNSCORED),
        },
    )


def weighted_sum(parts: Tensor, weights: Tensor) -> Tensor:
    """(R,) float64: Σ w·part over the parts that are there.

    Args:
        parts: (K, R) float64, NaN where a part gave nothing.
        weights: (K,) float64.

    Returns:
        NaN where all parts are NaN.
    """
    known = torch.where(parts.isnan(), 0.0, parts)
    return torch.where(parts.isnan().all(dim=0), torch.nan, (known * weights[:, None]).sum(dim=0))


def standardized_parts(inputs: CreditInputs, parts: Tensor, *, ddof: int, eps: float) -> tuple[Tensor, Tensor]:
    """Each part's distance from its group's mean, in units of its group's spread.

    Args:
        inputs: rows of whole groups.
        parts: (K, R) float64, NaN where a part gave nothing.
        ddof: of the spread.
        eps: added to it.

    Returns:
        (K, R) float64, 0 where a part is missing or level in the group; and (K, R) bool, where it is neither.
    """
    scores, contrasts = torch.zeros_like(parts), torch.zeros_like(parts, dtype=torch.bool)
    for place, part in enumerate(parts):
        of_part = replace(inputs, rewards=part)
        statistics = group_statistics(of_part)
        contrasts[place] = statistics.has_contrast
        scores[place] = standardized_rewards(part, statistics, ddof=ddof, eps=eps)
    return scores, contrasts


def _over_batch(inputs: CreditInputs, total: Tensor, is_compared: Tensor, ddof: int, eps: float) -> Tensor:
    """(R,) compared rows minus their mean over their standard deviation; 0 where they are of one level."""
    share = episode_shares(is_compared, places_of(inputs.episode_index))
    count = share.sum()
    found = total[is_compared]
    if not len(found) or count < 1.5 or float(found.max() - found.min()) <= EQUAL_REWARDS:
        return torch.zeros_like(total)
    distance = total - (share * total).sum() / count
    deviation = ((share * distance.square()).sum() / (count - ddof)).sqrt()
    return torch.where(is_compared, distance / (deviation + eps), 0.0)


def _parts(inputs: CreditInputs, weights: Mapping[str, float]) -> Tensor:
    """(K, R) the parts that are weighed, in the order of the weights; NaN in every unscored row."""
    if not weights:
        raise ObjectiveError("no part of the reward has a weight; name at least one.")
    parts = torch.stack([value_of(inputs, f"part/{name}") for name in weights])
    return torch.where(inputs.rewards.isnan(), torch.nan, parts)


def _numbers(weights: Mapping[str, float]) -> Tensor:
    return torch.tensor(list(weights.values()), dtype=torch.float64)
