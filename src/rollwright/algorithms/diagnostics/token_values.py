"""Metrics of an update that are one value a trained token, reduced over all of them or over every stratum at once."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rollwright.algorithms.diagnostics.measurement import Diagnostic, is_finite
from rollwright.algorithms.diagnostics.token_measures import TokenMeasures
from rollwright.algorithms.flags import (
    CLIPPED_HIGH,
    CLIPPED_LOW,
    DUAL_CLIP,
    OUTER_CLIP,
    OUTSIDE_SUPPORT,
    SEQUENCE_MASK,
    TOKEN_MASK,
    has_flag,
)
from rollwright.algorithms.ratios.token_ratios import LOG_RATIO_BOUND, clamped_exp
from rollwright.algorithms.regularizers.kl import k3_of

__all__ = [
    "CUTS",
    "QUANTILES",
    "SIDES",
    "STRATIFIED",
    "KnownValues",
    "Strata",
    "TokenValues",
    "known_values",
    "quantiles_by_stratum",
    "reduce_by_stratum",
    "reduce_whole",
    "stable_order",
    "token_values",
    "values_by_stratum",
]

STRATIFIED: Final = frozenset(
    {
        "policy/kl_beh",
        "policy/kl_beh_k3",
        "policy/kl_ref",
        "policy/clip_frac",
        "policy/clip_frac_two_sided",
        "policy/mask_frac",
        "is/ess_frac",
        "is/max",
        "is/quantiles",
        "is/frac_truncated",
        "entropy/full",
        "entropy/sampled",
        "stale/lag",
    }
)
"""Names of these metrics; also measured by source, length, sign of the advantage, kind of action, lag, outcome and
difficulty."""

QUANTILES: Final = (0.5, 0.9, 0.95, 0.99)
"""Of a ratio."""
SIDES: Final[Mapping[str, int]] = {"high": CLIPPED_HIGH, "low": CLIPPED_LOW, "dual": DUAL_CLIP, "outer": OUTER_CLIP}
"""Clips by their side, as bits of a token's flags."""
CUTS: Final[Mapping[str, int]] = {"token": TOKEN_MASK, "sequence": SEQUENCE_MASK, "support": OUTSIDE_SUPPORT}
"""Why a token was cut, as bits of its flags."""
_ACTING: Final = CLIPPED_HIGH | CLIPPED_LOW | DUAL_CLIP


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TokenValues:
    """A metric before it is reduced."""

    name: str
    unit: str
    values: Tensor
    """(N,) float64; not finite where the token has none."""
    reduction: Literal["mean", "max", "effective_share"] = "mean"
    """effective_share: (Σw)²/(n·Σw²)."""
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KnownValues:
    """A metric's tokens that have a value."""

    of: TokenValues
    values: NDArray[np.float64]
    """(n,)"""
    places: NDArray[np.int64] | None
    """(n,) where they stand among the N tokens; None: all of them have one."""
    is_any: bool
    """Some value is not 0."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Strata:
    """One way to part the trained tokens, such as by source."""

    label: str
    """The label that its metrics carry."""
    names: tuple[str, ...]
    """Of each stratum, in order."""
    index: Tensor
    """(N,) int64, place in `names` of each token's stratum."""


def token_values(tokens: TokenMeasures) -> tuple[TokenValues, ...]:
    """What the given streams allow of `STRATIFIED`, in a fixed order.

    Args:
        tokens: N trained tokens.

    Returns:
        One entry a metric; a metric whose stream is absent is left out.
    """
    found = [_share("policy/clip_frac", has_flag(tokens.flags, _ACTING))]
    if tokens.is_outside is not None:
        found.append(_share("policy/clip_frac_two_sided", tokens.is_outside))
    if tokens.is_kept is not None:
        found.append(_share("policy/mask_frac", ~tokens.is_kept))
    if tokens.is_truncated is not None:
        found.append(_share("is/frac_truncated", tokens.is_truncated))
    if (moved := tokens.log_ratio("current", "behavior")) is not None:
        held = moved.clamp(min=-LOG_RATIO_BOUND, max=LOG_RATIO_BOUND)
        k3 = torch.where(is_finite(moved), torch.expm1(held) - held, torch.nan)
        found.append(TokenValues(name="policy/kl_beh", unit="nat/token", values=-moved))
        found.append(TokenValues(name="policy/kl_beh_k3", unit="nat/token", values=k3))
    if (away := tokens.log_ratio("current", "reference")) is not None:
        k3 = torch.where(is_finite(away), k3_of(away), torch.nan)
        found.append(TokenValues(name="policy/kl_ref", unit="nat/token", values=k3))
    if (gap := tokens.log_ratio("proximal", "behavior")) is not None:
        ratio = torch.where(is_finite(gap), clamped_exp(gap), torch.nan)
        found.append(TokenValues(name="is/ess_frac", unit="fraction", values=ratio, reduction="effective_share"))
        found.append(TokenValues(name="is/max", unit="ratio", values=ratio, reduction="max"))
    if tokens.entropy is not None:
        found.append(TokenValues(name="entropy/full", unit="nat", values=tokens.entropy))
    return (*found, TokenValues(name="entropy/sampled", unit="nat", values=-tokens.logprobs["current"]))


def values_by_stratum(tokens: TokenMeasures) -> tuple[TokenValues, ...]:
    """What is measured of strata alone, beside `token_values`: every side and reason that a token has, and ages.

    Args:
        tokens: N trained tokens.

    Returns:
        A side or a reason that no token of the update has is left out: it is 0 everywhere.
    """
    found = [_share("policy/clip_frac", has_flag(tokens.flags, bit), {"side": side}) for side, bit in SIDES.items()]
    found += [_share("policy/mask_frac", has_flag(tokens.flags, bit), {"reason": why}) for why, bit in CUTS.items()]
    lags = torch.where(tokens.lags < 0, torch.nan, tokens.lags.to(torch.float64))
    return (
        *(one for one in found if bool(one.values.any())),
        TokenValues(name="stale/lag", unit="steps", values=lags, labels={"stat": "mean"}),
        TokenValues(name="stale/lag", unit="steps", values=lags, reduction="max", labels={"stat": "max"}),
    )


def known_values(one: TokenValues) -> KnownValues:
    """What the reductions of a metric look at, made once for all of them."""
    values, known = one.values.numpy(), np.isfinite(one.values.numpy())
    places = None if known.all() else np.flatnonzero(known)
    held = values if places is None else values[places]
    return KnownValues(of=one, values=held, places=places, is_any=bool(held.any()))


def reduce_whole(one: TokenValues) -> Diagnostic:
    """The metric over all tokens that have a value; None where none has."""
    known = is_finite(one.values)
    values, count = torch.where(known, one.values, 0.0), int(known.sum())
    match one.reduction:
        case "mean":
            value = values.sum() / count
        case "effective_share":
            value = values.sum().square() / (count * values.square().sum())
        case "max":
            value = values[known].max() if count else values.sum()
        case _:
            assert_never(one.reduction)
    return Diagnostic(
        name=one.name,
        value=float(value) if count else None,
        unit=one.unit,
        num_items=count,
        labels=one.labels,
    )


def reduce_by_stratum(known: KnownValues, strata: Strata, sizes: NDArray[np.int64]) -> tuple[Diagnostic, ...]:
    """The metric over every stratum in which a token has a value, with the stratum as label.

    Args:
        known: of the metric.
        strata: of the same tokens.
        sizes: tokens of each stratum.
    """
    one, num_strata = known.of, len(strata.names)
    index = strata.index.numpy()
    counts = sizes
    if known.places is not None:
        index = index[known.places]
        counts = np.bincount(index, minlength=num_strata)
    reduced = _reduced(known, index, counts)
    return tuple(
        Diagnostic(
            name=one.name, value=value, unit=one.unit, num_items=count, labels={**one.labels, strata.label: name}
        )
        for name, value, count in zip(strata.names, reduced.tolist(), counts.tolist(), strict=True)
        if count
    )


def quantiles_by_stratum(name: str, values: Tensor, strata: Strata) -> tuple[Diagnostic, ...]:
    """Quantiles of a ratio over every stratum in which a token has a value; the ⌊q·n⌋-th smallest, counted from 0.

    Args:
        name: of the metric.
        values: (N,) float64; not finite where the token has none.
        strata: of the same tokens.
    """
    known = is_finite(values)
    index = strata.index[known].numpy()
    counts = np.bincount(index, minlength=len(strata.names))
    by_stratum = values[known].numpy()[stable_order(index, len(counts))]
    parts = np.split(by_stratum, np.cumsum(counts)[:-1])
    return tuple(
        Diagnostic(
            name=name,
            value=value,
            unit="ratio",
            num_items=len(part),
            labels={"quantile": str(level), strata.label: stratum},
        )
        for stratum, part in zip(strata.names, parts, strict=True)
        if len(part)
        for level, value in zip(QUANTILES, _quantiles(part), strict=True)
    )


def stable_order(numbers: NDArray[np.int64], end: int) -> NDArray[np.int64]:
    """(N,) places of numbers below `end`, by number and then by place.

    Numbers of 16 bits are sorted by their digits, in a time that grows as they do.
    """
    return np.argsort(numbers.astype(np.uint16) if end <= 1 << 16 else numbers, kind="stable")


def _quantiles(values: NDArray[np.float64]) -> list[float]:
    """Those of `QUANTILES`, of at least one value."""
    places = [min(len(values) - 1, int(level * len(values))) for level in QUANTILES]
    return np.partition(values, sorted(set(places)))[places].tolist()


def _share(name: str, where: Tensor, labels: Mapping[str, str] | None = None) -> TokenValues:
    return TokenValues(name=name, unit="fraction", values=where.to(torch.float64), labels=labels or {})


def _reduced(known: KnownValues, index: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(num_strata,) the metric of each stratum; any number where it has no token."""
    values, num_strata = known.values, len(counts)
    items = np.maximum(counts, 1)
    match known.of.reduction:
        case "mean":
            # Most shares of an on-policy update are 0 everywhere.
            sums = np.bincount(index, weights=values, minlength=num_strata) if known.is_any else np.zeros(num_strata)
            return sums / items
        case "effective_share":
            squares = np.bincount(index, weights=np.square(values), minlength=num_strata)
            sums = np.square(np.bincount(index, weights=values, minlength=num_strata))
            with np.errstate(divide="ignore", invalid="ignore"):
                return sums / (items * squares)
        case "max":
            largest = np.full(num_strata, -np.inf)
            np.maximum.at(largest, index, values)
            return largest
        case _:
            assert_never(known.of.reduction)
