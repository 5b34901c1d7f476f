"""From the configuration of ratios and corrections to the parts that read two policies."""

from dataclasses import dataclass
from functools import partial
from typing import assert_never

from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.objective import CorrectionFn, KeepFn, RatioFn
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, staleness_ratio, token_ratio
from rollwright.recipes.config.objective import surrogate as kinds

__all__ = ["CorrectionParts", "RatioParts", "build_correction", "build_ratio"]

_NOTHING: frozenset[str] = frozenset()
_BOTH = frozenset({"proximal", "behavior"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioParts:
    """A ratio and the streams that it reads."""

    make: RatioFn
    needs: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionParts:
    """What is dropped and what is weighed, and the streams that both read."""

    keep: KeepFn = keep_all
    correction: CorrectionFn = no_correction
    needs: frozenset[str] = _BOTH


def build_ratio(name: kinds.RatioName) -> RatioParts:
    """The ratio of that name."""
    match name:
        case "none":
            return RatioParts(make=no_ratio, needs=_NOTHING)
        case "bypass":
            return RatioParts(make=bypass_ratio, needs=frozenset({"behavior"}))
        case "bypass_sequence_product":
            whole = partial(sequence_product_ratio, over="behavior")
            return RatioParts(make=whole, needs=frozenset({"behavior"}))
        case _:
            return RatioParts(make=_update_ratio(name), needs=frozenset({"proximal"}))


def build_correction(config: kinds.CorrectionConfig) -> CorrectionParts:
    """The correction and what it drops."""
    match config:
        case kinds.NoCorrectionConfig():
            return CorrectionParts(needs=_NOTHING)
        case kinds.DecoupledConfig():
            return CorrectionParts(correction=staleness_ratio)
        case kinds.TruncatedConfig():
            return CorrectionParts(correction=TruncatedRatio(cap=config.cap, level=config.level))
        case kinds.MaskedConfig():
            return CorrectionParts(keep=MaskedRatio(low=config.low, high=config.high), correction=staleness_ratio)
        case kinds.CompositeConfig():
            return CorrectionParts(keep=CompositeMask(), correction=staleness_ratio)
        case kinds.RowRejectionConfig():
            rejection = RowRejection(statistic=config.statistic, low=config.low, high=config.high)
            return CorrectionParts(keep=rejection)
        case kinds.OffPolicyConfig():
            return CorrectionParts(keep=OffPolicySequenceMask(delta=config.delta))
        case _:
            assert_never(config)


def _update_ratio(
    name: kinds.UpdateRatioName,
) -> RatioFn:
    match name:
        case "token":
            return token_ratio
        case "sequence_mean":
            return sequence_mean_ratio
        case "sequence_token":
            return sequence_token_ratio
        case "sequence_product":
            return sequence_product_ratio
        case "prefix":
            return prefix_ratio
        case "prefix_geometric":
            return prefix_mean_ratio
        case _:
            assert_never(name)
