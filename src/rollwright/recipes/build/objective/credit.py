"""From a credit's configuration to the estimator, and the stages around it."""

from functools import partial
from typing import assert_never

from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.comparison import compare_within
from rollwright.algorithms.credit.distillation import policy_shift, task_plus_teacher_gap, teacher_gap
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.implicit_process import implicit_process_reward
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit
from rollwright.algorithms.credit.quality import redistribute_by_quality
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.segment_penalty import penalize_segments
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.successes import imitate_successes
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.v_trace import v_trace
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    whiten_over_batch,
)
from rollwright.algorithms.objective import Controller, CreditFn
from rollwright.recipes.config.objective import ObjectiveConfig
from rollwright.recipes.config.objective import credit as kinds

__all__ = ["build_credit", "streams_of_credit"]

_COMPARED = (
    kinds.LeaveOneOutConfig
    | kinds.GroupStandardizedConfig
    | kinds.GroupCenteredConfig
    | kinds.TokenWhitenedConfig
    | kinds.BatchScaledConfig
    | kinds.LengthWeightedConfig
    | kinds.InformativeConfig
    | kinds.MaxRlConfig
    | kinds.PassAtKConfig
    | kinds.BestMinusSecondConfig
)
_VALUED = kinds.GaeConfig | kinds.TurnGaeConfig | kinds.VTraceConfig | kinds.CompactionConfig
_GUIDED = (
    kinds.ImplicitProcessConfig
    | kinds.TeacherGapConfig
    | kinds.TaskPlusTeacherConfig
    | kinds.PolicyShiftConfig
    | kinds.SelfTeacherConfig
    | kinds.SurprisesConfig
    | kinds.QualityConfig
    | kinds.SegmentPenaltyConfig
    | kinds.LevelGroupsConfig
)
_RETURNS = (
    kinds.ReturnToGoConfig
    | kinds.RunningBaselineConfig
    | kinds.BatchWhitenedConfig
    | kinds.TokenNormalizedConfig
    | kinds.GreedyBaselineConfig
    | kinds.OptimalTokenConfig
    | kinds.AnchorStateConfig
    | kinds.CallBroadcastConfig
    | kinds.SuccessesConfig
)


def build_credit(config: ObjectiveConfig, kl_coefficient: float | Controller) -> CreditFn:
    """The estimator of a composition: comparison group, source normalisation and a KL in the reward around it.

    Args:
        config: the composition.
        kl_coefficient: of the KL in the reward, where that is its place.
    """
    credit = _estimator(config.credit)
    if config.comparison != ("dispatch",):
        credit = partial(compare_within, credit=credit, by=config.comparison)
    if config.normalize_by_source:
        credit = partial(normalize_by_source, credit=credit)
    if config.kl_place != "loss" and config.kl_coefficient > 0:
        # In bypass mode the policy before the update is the one that sampled.
        scored_by = "behavior" if config.ratio == "bypass" else "proximal"
        credit = partial(
            kl_in_reward, credit=credit, coefficient=kl_coefficient, place=config.kl_place, scored_by=scored_by
        )
    return credit


def streams_of_credit(config: kinds.CreditConfig) -> frozenset[str]:
    """What an estimator reads of a critic, a teacher or the engine, as an objective's `needs` names it."""
    match config:
        case kinds.GaeConfig() | kinds.TurnGaeConfig() | kinds.CompactionConfig():
            return frozenset({"values"})
        case kinds.VTraceConfig():
            return frozenset({"values", "behavior"})
        case kinds.TeacherGapConfig() | kinds.TaskPlusTeacherConfig():
            return frozenset({"teacher"})
        case _:
            return frozenset()


def _estimator(config: kinds.CreditConfig) -> CreditFn:
    if isinstance(config, _COMPARED):
        return _compared(config)
    if isinstance(config, _VALUED):
        return _valued(config)
    if isinstance(config, _GUIDED):
        return _guided(config)
    return _of_returns(config)


def _compared(config: _COMPARED) -> CreditFn:
    match config:
        case kinds.LeaveOneOutConfig():
            return leave_one_out
        case kinds.GroupStandardizedConfig():
            return partial(standardize_within_group, ddof=config.ddof, eps=config.eps)
        case kinds.GroupCenteredConfig():
            return center_within_group
        case kinds.TokenWhitenedConfig():
            return partial(center_then_whiten_tokens, eps=config.eps, level_groups=config.level_groups)
        case kinds.BatchScaledConfig():
            return partial(center_then_scale_by_batch, ddof=config.ddof, eps=config.eps)
        case kinds.LengthWeightedConfig():
            return length_weighted_baseline
        case kinds.InformativeConfig():
            return partial(rescale_informative, counting=config.counting, norm=config.norm)
        case kinds.MaxRlConfig():
            return divide_by_mean
        case kinds.PassAtKConfig():
            return partial(pass_at_k_credit, k=config.k, success_at=config.success_at)
        case kinds.BestMinusSecondConfig():
            return partial(best_minus_second, scaling=config.scaling)
        case _:
            assert_never(config)


def _valued(config: _VALUED) -> CreditFn:
    match config:
        case kinds.GaeConfig():
            alpha = config.length_alpha
            return partial(
                generalized_advantage,
                discount=config.discount,
                policy_lambda=config.policy_lambda if alpha is None else LengthAdaptive(alpha=alpha),
                value_lambda=config.value_lambda,
                truncation=config.truncation,
            )
        case kinds.TurnGaeConfig():
            return partial(turn_level_advantage, discount=config.discount, decay=config.decay)
        case kinds.VTraceConfig():
            return partial(v_trace, discount=config.discount, rho_bar=config.rho_bar, c_bar=config.c_bar)
        case kinds.CompactionConfig():
            adaptive = LengthAdaptive(alpha=config.length_alpha, over=config.length_over)
            return partial(compaction_advantage, discount=config.discount, policy_lambda=adaptive)
        case _:
            assert_never(config)


def _guided(config: _GUIDED) -> CreditFn:
    match config:
        case kinds.ImplicitProcessConfig():
            return partial(implicit_process_reward, beta=config.beta, discount=config.discount, form=config.form)
        case kinds.TeacherGapConfig():
            return partial(teacher_gap, bound=config.bound)
        case kinds.TaskPlusTeacherConfig():
            return partial(task_plus_teacher_gap, credit=_base(config.base), eta=config.eta, kappa=config.kappa)
        case kinds.PolicyShiftConfig():
            return partial(policy_shift, scale=config.scale)
        case kinds.SelfTeacherConfig():
            return self_teacher_gap
        case kinds.SurprisesConfig():
            return partial(reinforce_surprises, credit=_base(config.base), bonus=config.bonus)
        case kinds.QualityConfig():
            return partial(redistribute_by_quality, max_scale=config.max_scale)
        case kinds.SegmentPenaltyConfig():
            return partial(
                penalize_segments,
                credit=_base(config.base),
                kappa=config.kappa,
                alpha_max=config.alpha_max,
                beta_min=config.beta_min,
            )
        case kinds.LevelGroupsConfig():
            return partial(learn_from_level_groups, credit=_base(config.base), alpha=config.alpha)
        case _:
            assert_never(config)


def _of_returns(config: _RETURNS) -> CreditFn:
    match config:
        case kinds.ReturnToGoConfig():
            return partial(return_to_go, discount=config.discount, baseline=config.baseline)
        case kinds.RunningBaselineConfig():
            return RunningBaseline(decay=config.decay, initial=config.initial)
        case kinds.BatchWhitenedConfig():
            return partial(whiten_over_batch, discount=config.discount, eps=config.eps)
        case kinds.TokenNormalizedConfig():
            return partial(normalize_over_tokens, ddof=config.ddof, eps=config.eps)
        case kinds.GreedyBaselineConfig():
            return subtract_greedy
        case kinds.OptimalTokenConfig():
            return partial(optimal_token_baseline, eps=config.eps, tail=config.tail)
        case kinds.AnchorStateConfig():
            return partial(
                anchor_state_advantage,
                discount=config.discount,
                step_weight=config.step_weight,
                scaling=config.scaling,
                eps=config.eps,
                episode_discount=config.episode_discount,
            )
        case kinds.CallBroadcastConfig():
            return partial(broadcast_to_calls, baseline=config.baseline)
        case kinds.SuccessesConfig():
            return partial(imitate_successes, threshold=config.threshold)
        case _:
            assert_never(config)


def _base(name: kinds.BaseCredit) -> CreditFn:
    match name:
        case "group_centered":
            return center_within_group
        case "group_standardized":
            return standardize_within_group
        case "leave_one_out":
            return leave_one_out
        case _:
            assert_never(name)
