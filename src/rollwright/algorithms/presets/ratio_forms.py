"""Presets that are known for their ratio or their surrogate."""

from functools import partial
from typing import Literal

from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.denominators.plain import ResponseMean, SequenceSum, TokenMean
from rollwright.algorithms.objective import Objective
from rollwright.algorithms.presets.building import gated
from rollwright.algorithms.ratios.prefix_ratios import prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import sequence_mean_ratio, sequence_product_ratio
from rollwright.algorithms.surrogates.cispo import Cispo
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.soft_gate import SoftGate

__all__ = ["cispo", "ctpo", "gmpo", "gspo", "maspo", "sapo", "topr", "vespo"]

_BEHAVIOR = frozenset({"behavior"})


def gspo(*, clip: SequenceClip | None = None) -> Objective:
    """GSPO: one length-normalised ratio a response, clipped, response mean (arXiv:2507.18071).

    Args:
        clip: bounds of the row's ratio; None is [1 - 3e-4, 1 + 4e-4].

    Returns:
        The objective.
    """
    return gated(
        "gspo",
        credit=standardize_within_group,
        ratio=sequence_mean_ratio,
        surrogate=clip or SequenceClip(),
        weights=ResponseMean(),
    )


def cispo(*, high: float | None = None, low: float = 0.0) -> Objective:
    """CISPO: a clamped, detached weight on the log-probability, token mean (arXiv:2506.13585).

    Args:
        high: largest weight; MiniMax-M1 does not give it.
        low: smallest weight.

    Returns:
        The objective: every token keeps a gradient.
    """
    surrogate = Cispo(low=low, high=high)
    return gated("cispo", credit=standardize_within_group, surrogate=surrogate, weights=TokenMean())


def sapo(*, gate: SoftGate | None = None) -> Objective:
    """SAPO: a sigmoid gate in place of the clip, response mean.

    Args:
        gate: its temperatures; None is 1 and 1.05.

    Returns:
        The objective.
    """
    return gated("sapo", credit=standardize_within_group, surrogate=gate or SoftGate(), weights=ResponseMean())


def gmpo(*, log_clip: float = 0.4) -> Objective:
    """GMPO: the geometric mean of clipped token ratios, row mean (arXiv:2507.20673).

    Args:
        log_clip: bound of a token's log-ratio, nats.

    Returns:
        The objective.
    """
    surrogate = GeometricMeanClip(log_clip=log_clip)
    return gated("gmpo", credit=standardize_within_group, surrogate=surrogate, weights=ResponseMean())


def topr() -> Objective:
    """TOPR: good rows as they are, bad rows tapered by their probability over the sampler's (arXiv:2503.14286).

    Returns:
        The objective, in bypass mode: its ratio is current over behavior, of the whole row.
    """
    return gated(
        "topr",
        credit=center_within_group,
        ratio=partial(sequence_product_ratio, over="behavior"),
        surrogate=Topr(),
        weights=SequenceSum(),
        needs=_BEHAVIOR,
    )


def ctpo(*, clip: PrefixClip | None = None) -> Objective:
    """CTPO: the clip on the ratio up to each token, in a band that widens with the position.

    Args:
        clip: the band; None is the released scripts'.

    Returns:
        The objective.
    """
    return gated(
        "ctpo",
        credit=standardize_within_group,
        ratio=prefix_ratio,
        surrogate=clip or PrefixClip(),
        weights=TokenMean(),
    )


def maspo(*, gate: Literal["detached", "differentiated"] | None = None) -> Objective:
    """MASPO: a Gaussian gate whose width follows probability and advantage.

    Args:
        gate: whether the gate has a gradient of its own; its paper does not say.

    Returns:
        The objective.
    """
    surrogate = MassAdaptiveGate(gate=gate)
    return gated("maspo", credit=standardize_within_group, surrogate=surrogate, weights=TokenMean())


def vespo(*, weight: Vespo | None = None) -> Objective:
    """VESPO: a detached weight of the row's whole ratio that peaks at 1.

    Args:
        weight: its powers and rates; None is public code's.

    Returns:
        The objective.
    """
    return gated(
        "vespo",
        credit=standardize_within_group,
        ratio=sequence_product_ratio,
        surrogate=weight or Vespo(),
        weights=TokenMean(),
    )
