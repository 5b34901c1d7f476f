"""Quantiles of each group's values, without a loop over groups."""

import torch
from torch import Tensor

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["quantiles_within"]


def quantiles_within(values: Tensor, group: Tensor, counted: Tensor, *, percentile: float) -> Tensor:
    """The percentile of the counted values of each row's group, interpolated linearly between neighbours.

    Args:
        values: (R,) float64, finite where counted.
        group: (R,) int64 places 0, 1, …, as `places_of` gives them.
        counted: (R,) bool.
        percentile: in [0, 100].

    Returns:
        (R,) float64; 0 in a group without a counted value.
    """
    if not 0.0 <= percentile <= 100.0:
        raise ObjectiveError(f"the percentile is {percentile}; it lies between 0 and 100.")
    if not len(values):
        return values.clone()
    num_groups = int(group.max()) + 1
    counts = torch.zeros(num_groups, dtype=torch.int64).index_add(0, group[counted], torch.ones_like(group[counted]))
    chosen = values[counted]
    by_value = chosen.argsort(stable=True)
    order = by_value[group[counted][by_value].argsort(stable=True)]
    ordered = torch.cat([chosen[order], chosen.new_zeros(1)])
    starts = counts.cumsum(0) - counts
    place = (counts - 1).clamp(min=0).to(torch.float64) * (percentile / 100.0)
    low = place.floor().to(torch.int64)
    high = torch.minimum(low + 1, (counts - 1).clamp(min=0))
    below, above = ordered[starts + low], ordered[starts + high]
    found = below + (place - low) * (above - below)
    return torch.where(counts > 0, found, 0.0)[group]
