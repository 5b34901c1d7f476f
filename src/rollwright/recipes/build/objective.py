"""From the objective's configuration to a composition."""

from functools import partial
from typing import assert_never

from rollwright.algorithms import (
    Clip,
    CreditFn,
    FixedLength,
    Objective,
    PromptMean,
    Regularizer,
    ResponseMean,
    SequenceSum,
    TokenMean,
    WeightFn,
    center_within_group,
    clipped,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_plus,
    leave_one_out,
    return_to_go,
    score_function,
    standardize_within_group,
    with_regularizer,
)
from rollwright.recipes.config.objective import (
    DapoConfig,
    DrGrpoConfig,
    GrpoConfig,
    ObjectiveConfig,
    ReinforceConfig,
    RlooConfig,
)

__all__ = ["build_objective"]


def build_objective(config: ObjectiveConfig) -> Objective:
    """The objective of an RL stage, with its KL term where it has one."""
    objective = _composition(config)
    if config.kl_coefficient == 0:
        return objective
    estimators = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3, "k3+": kl_k3_plus}
    term = Regularizer(
        component="kl",
        coefficient=config.kl_coefficient,
        per_token=estimators[config.kl_estimator],
        weights=_weights(config),
    )
    return with_regularizer(objective, term, needs=frozenset({"reference"}))


def _composition(config: ObjectiveConfig) -> Objective:
    weights = _weights(config)
    match config:
        case GrpoConfig() | DapoConfig():
            credit: CreditFn = partial(standardize_within_group, ddof=config.ddof, eps=config.std_epsilon)
            return clipped(config.kind, credit=credit, clip=_clip(config), weights=weights)
        case DrGrpoConfig():
            return clipped(config.kind, credit=center_within_group, clip=_clip(config), weights=weights)
        case RlooConfig():
            return score_function(config.kind, credit=leave_one_out, weights=weights)
        case ReinforceConfig():
            credit = partial(return_to_go, discount=1.0, baseline=config.baseline)
            return score_function(config.kind, credit=credit, weights=weights)
        case _:
            assert_never(config)


def _clip(config: GrpoConfig | DapoConfig | DrGrpoConfig) -> Clip:
    return Clip(low=1.0 - config.clip_low, high=1.0 + config.clip_high)


def _weights(config: ObjectiveConfig) -> WeightFn:
    match config.denominator:
        case "token_mean":
            return TokenMean()
        case "response_mean":
            return ResponseMean()
        case "sequence_sum":
            return SequenceSum()
        case "prompt_mean":
            return PromptMean()
        case "fixed_length":
            assert config.fixed_length_tokens is not None, "the configuration checks it"
            return FixedLength(length=config.fixed_length_tokens)
        case _:
            assert_never(config.denominator)
