"""From the configuration of KL, entropy and likelihood to terms of the loss."""

from dataclasses import dataclass
from functools import partial

from rollwright.algorithms.objective import Controller, RatioFn, Regularizer, WeightFn
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, token_ratio
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.algorithms.regularizers.kl import kl_k1, kl_k2, kl_k3, kl_k3_plus
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.regularizers.positive_nll import positive_nll
from rollwright.recipes.config.objective import ObjectiveConfig

__all__ = ["Terms", "build_kl_coefficient", "build_regularizers"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Terms beside the main one, and the streams that they read."""

    regularizers: tuple[Regularizer, ...]
    needs: frozenset[str]


def build_kl_coefficient(config: ObjectiveConfig, *, num_rows: int) -> float | Controller:
    """The KL coefficient: a constant, or what follows a target (M84)."""
    if config.kl_target is None:
        return config.kl_coefficient
    return AdaptiveKl(
        initial=config.kl_coefficient, target=config.kl_target, num_rows=num_rows, horizon=int(config.kl_horizon)
    )


def build_regularizers(config: ObjectiveConfig, weights: WeightFn, kl_coefficient: float | Controller) -> Terms:
    """The terms that a configuration asks for.

    Args:
        config: the composition.
        weights: of the main term, which KL shares.
        kl_coefficient: from `build_kl_coefficient`.
    """
    terms: list[Regularizer] = []
    needs: set[str] = set()
    if config.kl_coefficient > 0 and config.kl_place == "loss":
        terms.append(_kl(config, weights, kl_coefficient))
        needs |= {"reference"} | _read_by_kl(config)
    if config.entropy_coefficient > 0 or config.entropy_target is not None:
        terms.append(entropy_regularizer(_entropy_coefficient(config)))
        needs.add("entropy")
    if config.positive_nll_coefficient > 0:
        terms.append(positive_nll(coefficient=config.positive_nll_coefficient, threshold=config.success_at))
    return Terms(regularizers=tuple(terms), needs=frozenset(needs))


def _kl(config: ObjectiveConfig, weights: WeightFn, coefficient: float | Controller) -> Regularizer:
    estimators = {
        "k1": kl_k1,
        "k2": kl_k2,
        "k3": kl_k3,
        "k3+": kl_k3_plus,
        "corrected_k3": partial(kl_k3_corrected, ratio=_ratio_of_kl(config)),
    }
    per_token = estimators[config.kl_estimator]
    return Regularizer(component="kl", coefficient=coefficient, per_token=per_token, weights=weights)


def _ratio_of_kl(config: ObjectiveConfig) -> RatioFn:
    """Against behavior in bypass mode, else against proximal, whose distance from behavior a correction has."""
    return bypass_ratio if config.ratio == "bypass" else token_ratio


def _read_by_kl(config: ObjectiveConfig) -> frozenset[str]:
    if config.kl_estimator != "corrected_k3":
        return frozenset()
    return frozenset({"behavior" if config.ratio == "bypass" else "proximal"})


def _entropy_coefficient(config: ObjectiveConfig) -> float | Controller:
    if config.entropy_target is None:
        return config.entropy_coefficient
    return MagicEntropy(target=config.entropy_target, step=config.entropy_step, cap=config.entropy_cap)
