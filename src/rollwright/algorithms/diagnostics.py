"""Metrics of an update: a second function over the tensors of the loss (M46, M107, M135).

    streams, flags ──measure_tokens──► one value a trained token ──token_diagnostics──► numbers of the update
                                                    └──only(stratum)──token_diagnostics──► numbers of a stratum

Names, formulas and units are those of the catalogue of metrics. No value outside the action mask is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from rollwright.algorithms.group_metrics import explained_variance, group_diagnostics
from rollwright.algorithms.measurement import Diagnostic, masked_mean
from rollwright.algorithms.objective import Objective, TokenStreams
from rollwright.algorithms.token_measures import TokenMeasures, measure_tokens
from rollwright.algorithms.token_metrics import (
    STRATIFIED,
    effective_sample_size,
    lag_diagnostics,
    token_diagnostics,
)

__all__ = [
    "Diagnostic",
    "Strata",
    "effective_sample_size",
    "explained_variance",
    "group_diagnostics",
    "lag_diagnostics",
    "masked_mean",
    "measure_tokens",
    "stratified_diagnostics",
    "token_diagnostics",
    "update_diagnostics",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strata:
    """One way to part the trained tokens, such as by source."""

    label: str
    """The label that its metrics carry."""
    names: Sequence[str]
    """Of each stratum, in order."""
    index: Tensor
    """(N,) int64, place in `names` of each token's stratum."""


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
    found: list[Diagnostic] = []
    for one in strata:
        filled = [int(place) for place in one.index.bincount().nonzero().flatten().unbind()]
        for place in filled if len(filled) > 1 else ():
            found += [
                Diagnostic(
                    name=number.name,
                    value=number.value,
                    unit=number.unit,
                    num_items=number.num_items,
                    labels={one.label: one.names[place]},
                )
                for number in token_diagnostics(tokens.only(one.index == place))
                if number.name in STRATIFIED and not number.labels and number.value is not None
            ]
    return tuple(found)
