"""Metrics of an update: a second function over the tensors of the loss (M46, M107, M135).

    streams, flags ──measure_tokens──► trained tokens ──token_diagnostics───────► numbers of the update
                                              └────────stratified_diagnostics──► numbers of its strata

Names, formulas and units are those of the list of metrics. No value outside the action mask is read.
"""

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from rollwright.algorithms.diagnostics.group_metrics import explained_variance, group_diagnostics
from rollwright.algorithms.diagnostics.measurement import Diagnostic, masked_mean
from rollwright.algorithms.diagnostics.token_measures import TokenMeasures, measure_tokens
from rollwright.algorithms.diagnostics.token_metrics import effective_sample_size, lag_diagnostics, token_diagnostics
from rollwright.algorithms.diagnostics.token_values import (
    Strata,
    known_values,
    quantiles_by_stratum,
    reduce_by_stratum,
    stable_order,
    token_values,
    values_by_stratum,
)
from rollwright.algorithms.objective import Objective, TokenStreams

__all__ = [
    "Diagnostic",
    "Strata",
    "effective_sample_size",
    "explained_variance",
    "group_diagnostics",
    "lag_diagnostics",
    "masked_mean",
    "measure_tokens",
    "stable_order",
    "stratified_diagnostics",
    "token_diagnostics",
    "update_diagnostics",
]


def update_diagnostics(
    objective: Objective, streams: TokenStreams, flags: Tensor, *, learner_version: int, keep: Tensor | None = None
) -> tuple[Diagnostic, ...]:
    """Measure an update: divergences, clipping, importance ratios, mismatch, entropy, counts, lags.

    Args:
        objective: its band gives the two-sided clip fraction, its ratio the ratios.
        streams: all tokens of the update; what is absent is not measured.
        flags: (T,) int32 bits of the loss.
        learner_version: weights that stood before the update; mismatch is taken at equal version only.
        keep: (T,) bool, tokens in the numerator; without it their share is not measured.

    Returns:
        The numbers, in a fixed order.
    """
    tokens = measure_tokens(objective, streams, flags, learner_version=learner_version, keep=keep)
    lags = lag_diagnostics(streams.policy_versions, streams.action_mask, learner_version=learner_version)
    return (*token_diagnostics(tokens), *lags)


def stratified_diagnostics(tokens: TokenMeasures, strata: Sequence[Strata]) -> tuple[Diagnostic, ...]:
    """The metrics that are stratified, for every part of the tokens.

    Args:
        tokens: of the update.
        strata: ways to part them; one whose tokens all stand in one stratum says nothing new and is left out.

    Returns:
        Numbers that are defined, each with the stratum as label.
    """
    values = (*token_values(tokens), *values_by_stratum(tokens))
    ratio = next((one.values for one in values if one.name == "is/max"), None)
    known = [known_values(one) for one in values]
    found: list[Diagnostic] = []
    for part in strata:
        sizes = np.bincount(part.index.numpy(), minlength=len(part.names))
        if np.count_nonzero(sizes) > 1:
            found += (number for one in known for number in reduce_by_stratum(one, part, sizes))
            found += quantiles_by_stratum("is/quantiles", ratio, part) if ratio is not None else ()
    return tuple(found)
