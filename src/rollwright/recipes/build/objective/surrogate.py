"""From a surrogate's configuration to what is maximised, and what that brings along."""

from dataclasses import dataclass
from typing import assert_never

from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.objective import Regularizer, SurrogateFn, UpdateStage
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.covariance import ClipCov, KlCov, clip_cov_stage, kl_cov_stage
from rollwright.algorithms.surrogates.dual_clip import DualClip
from rollwright.algorithms.surrogates.earl_gate import EarlGate, earl_gate_stage
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.likelihood import log_likelihood, policy_gradient
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound, OuterClip
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds
from rollwright.algorithms.surrogates.soft_gate import SoftGate
from rollwright.recipes.config.objective import surrogate as kinds

__all__ = ["LossParts", "build_surrogate"]

_NOTHING: frozenset[str] = frozenset()
_PROXIMAL = frozenset({"proximal"})
_BEHAVIOR = frozenset({"behavior"})
_ENTROPY = frozenset({"entropy"})

_CLIPS = (
    kinds.ClipConfig
    | kinds.DualClipConfig
    | kinds.SequenceClipConfig
    | kinds.PrefixClipConfig
    | kinds.ClipCovConfig
    | kinds.OuterClipConfig
    | kinds.SignedBoundsConfig
    | kinds.GeometricMeanConfig
    | kinds.EarlConfig
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossParts:
    """A surrogate, and what it brings along."""

    surrogate: SurrogateFn
    needs: frozenset[str] = _NOTHING
    regularizers: tuple[Regularizer, ...] = ()
    stages: tuple[UpdateStage, ...] = ()
    acts_without_advantage: bool = False


def build_surrogate(config: kinds.SurrogateConfig) -> LossParts:
    """The surrogate of that form."""
    if isinstance(config, _CLIPS):
        return _clip(config)
    match config:
        case kinds.PolicyGradientConfig():
            return LossParts(surrogate=policy_gradient)
        case kinds.LogLikelihoodConfig():
            return LossParts(surrogate=log_likelihood)
        case kinds.CispoConfig():
            return LossParts(surrogate=Cispo(low=config.low, high=config.high))
        case kinds.AipoConfig():
            return LossParts(surrogate=Aipo(cap=config.cap))
        case kinds.SoftGateConfig():
            gate = SoftGate(tau_positive=config.tau_positive, tau_negative=config.tau_negative)
            return LossParts(surrogate=gate)
        case kinds.MassAdaptiveConfig():
            return LossParts(surrogate=_mass_gate(config), needs=_PROXIMAL)
        case kinds.KlCovConfig():
            selected = kl_cov_stage(share=config.share)
            penalty = KlCov(coefficient=config.coefficient)
            return LossParts(surrogate=penalty, needs=_PROXIMAL, stages=(selected,), acts_without_advantage=True)
        case kinds.MirrorDescentConfig():
            return LossParts(surrogate=MirrorDescent(tau=config.tau), needs=_PROXIMAL, acts_without_advantage=True)
        case kinds.BinaryDriftConfig():
            return _binary_drift(config)
        case kinds.MaskedImportanceConfig():
            masked = MaskedImportance(low=config.low, high=config.high, kl_tau=config.kl_tau)
            return LossParts(surrogate=masked, acts_without_advantage=config.kl_tau > 0)
        case _:
            return LossParts(surrogate=_weighted(config))


def _weighted(
    config: kinds.ToprConfig | kinds.VespoConfig | kinds.DoubleSidedMaskConfig,
) -> SurrogateFn:
    match config:
        case kinds.ToprConfig():
            return Topr()
        case kinds.VespoConfig():
            return Vespo(
                power_positive=config.power_positive,
                rate_positive=config.rate_positive,
                power_negative=config.power_negative,
                rate_negative=config.rate_negative,
            )
        case kinds.DoubleSidedMaskConfig():
            return DoubleSidedMask(below=config.below, above=config.above)
        case _:
            assert_never(config)


def _clip(config: _CLIPS) -> LossParts:
    match config:
        case kinds.ClipConfig():
            return LossParts(surrogate=Clip(low=1.0 - config.clip_low, high=1.0 + config.clip_high))
        case kinds.DualClipConfig():
            dual = DualClip(low=1.0 - config.clip_low, high=1.0 + config.clip_high, dual=config.dual)
            return LossParts(surrogate=dual)
        case kinds.SequenceClipConfig():
            low, high = 1.0 - config.clip_low, 1.0 + config.clip_high
            return LossParts(surrogate=SequenceClip(low=low, high=high, advantage=config.advantage))
        case kinds.PrefixClipConfig():
            prefix = PrefixClip(low=config.low, high=config.high, dual=config.dual, power=config.power)
            return LossParts(surrogate=prefix)
        case kinds.ClipCovConfig():
            clip = ClipCov(low=1.0 - config.clip_low, high=1.0 + config.clip_high)
            selected = clip_cov_stage(share=config.share, low=config.low, high=config.high)
            return LossParts(surrogate=clip, needs=_PROXIMAL, stages=(selected,))
        case kinds.OuterClipConfig():
            return LossParts(surrogate=_outer_clip(config), needs=_ENTROPY)
        case kinds.SignedBoundsConfig():
            return LossParts(surrogate=_signed_bounds(config))
        case kinds.GeometricMeanConfig():
            return LossParts(surrogate=GeometricMeanClip(log_clip=config.log_clip))
        case kinds.EarlConfig():
            clip = Clip(low=1.0 - config.clip_low, high=1.0 + config.clip_high)
            return LossParts(
                surrogate=EarlGate(surrogate=clip), needs=_ENTROPY, stages=(earl_gate_stage(share=config.share),)
            )
        case _:
            assert_never(config)


def _outer_clip(config: kinds.OuterClipConfig) -> OuterClip:
    low = 1.0 - chosen("clip_low", config.clip_low, undisclosed_by="MAI-Thinking-1")
    upper = AdaptiveUpperBound(low=low, step=config.step, largest=config.largest, target=config.entropy_target)
    return OuterClip(low=low, high=upper, outer_low=config.outer_low, outer_high=config.outer_high)


def _signed_bounds(config: kinds.SignedBoundsConfig) -> SignedBounds:
    return SignedBounds(
        positive_low=config.positive_low,
        positive_high=config.positive_high,
        negative_low=config.negative_low,
        negative_high=config.negative_high,
        outside=config.outside,
    )


def _mass_gate(config: kinds.MassAdaptiveConfig) -> MassAdaptiveGate:
    return MassAdaptiveGate(sigma_base=config.sigma_base, alpha=config.alpha, beta=config.beta, gate=config.gate)


def _binary_drift(config: kinds.BinaryDriftConfig) -> LossParts:
    mask = BinaryDrift(low=config.low, high=config.high)
    drift = Regularizer(component="drift", coefficient=config.drift, per_token=squared_drift, weights=TokenMean())
    return LossParts(surrogate=mask, needs=_BEHAVIOR, regularizers=(drift,) if config.drift else ())
