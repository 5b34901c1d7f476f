"""From the objective's configuration to a composition."""

from dataclasses import replace
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
    check_objective,
    clipped,
    exclude_truncated,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_plus,
    leave_one_out,
    mask_truncated,
    penalize_overlong,
    punish_truncated,
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
from rollwright.recipes.config.sampling import RolloutConfig

__all__ = ["build_objective"]


def build_objective(config: ObjectiveConfig, rollout: RolloutConfig) -> Objective:
    """The objective of an RL stage: its credit under the truncation rule, and its KL term where it has one."""
    objective = _composition(config)
    objective = replace(objective, credit=_under_truncation(objective.credit, rollout))
    if config.kl_coefficient == 0:
        check_objective(objective, group_size=rollout.group_size)
        return objective
    estimators = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3, "k3+": kl_k3_plus}
    term = Regularizer(
        component="kl",
        coefficient=config.kl_coefficient,
        per_token=estimators[config.kl_estimator],
        weights=_weights(config),
    )
    objective = with_regularizer(objective, term, needs=frozenset({"reference"}))
    check_objective(objective, group_size=rollout.group_size)
    return objective


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


def _under_truncation(credit: CreditFn, rollout: RolloutConfig) -> CreditFn:
    match rollout.truncation:
        case "negative":
            return partial(punish_truncated, credit=credit)
        case "mask":
            return partial(mask_truncated, credit=credit)
        case "exclude":
            return partial(exclude_truncated, credit=credit)
        case "soft_penalty":
            assert rollout.overlong_max_tokens is not None, "the configuration checks it"
            assert rollout.overlong_buffer_tokens is not None, "the configuration checks it"
            return partial(
                penalize_overlong,
                credit=credit,
                max_tokens=rollout.overlong_max_tokens,
                buffer_tokens=rollout.overlong_buffer_tokens,
            )
        case "resume":
            raise AssertionError("the configuration refuses it")
        case _:
            assert_never(rollout.truncation)
