"""Pure mathematics on tensors, from credit to regularizers; imports nothing of ours.

What carries out a method of the catalogue has its name here; `catalogue` says what each is and where it is from.
"""

from rollwright.algorithms.composition import LossTerms, kept_tokens, loss_terms
from rollwright.algorithms.controllers import controllers_of, restore_states, states_of
from rollwright.algorithms.corrections.behavior_support import candidate_set, support_logprobs, tempered_logprobs
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.corrections.self_normalized import SelfNormalized
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.compaction import compaction_advantage
from rollwright.algorithms.credit.comparison import compare_within
from rollwright.algorithms.credit.distillation import (
    multi_teacher_gap,
    policy_shift,
    task_plus_teacher_gap,
    teacher_gap,
)
from rollwright.algorithms.credit.generalized_advantage import LengthAdaptive, generalized_advantage
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.groups import GroupStatistics, group_statistics
from rollwright.algorithms.credit.implicit_process import implicit_process_reward, process_reward_loss
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.moments import Moments
from rollwright.algorithms.credit.moved_rewards import move_to_actions
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline, score_norm_sums
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit, pass_at_k_scores
from rollwright.algorithms.credit.pivots import find_pivots
from rollwright.algorithms.credit.quality import redistribute_by_quality, reject_hacks, rubric_reward
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.roles import blend_rewards, freeze_roles
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.segment_penalty import penalize_segments
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.successes import condition_on_success, imitate_successes
from rollwright.algorithms.credit.supervised import imitate
from rollwright.algorithms.credit.truncation import (
    exclude_truncated,
    mask_truncated,
    overlong_penalty,
    penalize_overlong,
    punish_truncated,
)
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.v_trace import v_trace
from rollwright.algorithms.credit.verdicts import verdict_loss, verdict_scores, verdict_weights, weighted_vote
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    scale_advantages,
    whiten_advantages,
    whiten_over_batch,
)
from rollwright.algorithms.denominators.equal_siblings import EqualSiblings
from rollwright.algorithms.denominators.plain import (
    EpisodeMean,
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
    row_lengths,
)
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.describe import Description, PartDescription, describe
from rollwright.algorithms.diagnostics.updates import (
    Diagnostic,
    effective_sample_size,
    explained_variance,
    group_diagnostics,
    lag_diagnostics,
    masked_mean,
    stratified_diagnostics,
    update_diagnostics,
)
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.layouts import (
    PaddedBatch,
    credit_inputs_from_padded,
    from_padded,
    streams_from_padded,
    to_padded,
)
from rollwright.algorithms.masking import CleanStreams, clean_streams
from rollwright.algorithms.objective import (
    Controller,
    CorrectionFn,
    Counting,
    Credit,
    CreditFn,
    CreditInputs,
    Keep,
    KeepFn,
    Memory,
    Objective,
    RatioFn,
    Regularizer,
    RowLengths,
    Surrogate,
    SurrogateFn,
    TokenStreams,
    UpdateStage,
    WeightFn,
)
from rollwright.algorithms.presets import (
    EntropyFollowingClip,
    areal,
    bypassing_proximal,
    cispo,
    clipped,
    compaction_rl,
    corrected,
    ctpo,
    dapo,
    decoupled_ppo,
    dr_grpo,
    gated,
    gigpo,
    glm5_agents,
    glm5_reasoning,
    gmpo,
    gpg,
    grpo,
    grpo_roc,
    gspo,
    intellect3,
    magic,
    mai_thinking,
    maspo,
    mimo,
    mopd,
    opd,
    opo,
    ppo,
    prime,
    prime_rl,
    reinforce,
    reinforce_plus_plus,
    reinforce_plus_plus_baseline,
    remax,
    rloo,
    sao,
    sapo,
    score_function,
    supervised,
    topr,
    vapo,
    vespo,
    with_regularizer,
)
from rollwright.algorithms.presets.table import PRESETS
from rollwright.algorithms.ratios.prefix_ratios import prefix_band, prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, staleness_ratio, token_ratio
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.regularizers.effort import effort_budget, effort_length_penalty
from rollwright.algorithms.regularizers.entropy_bonus import entropy_bonus
from rollwright.algorithms.regularizers.full_vocabulary import entropy_of_logits, exact_kl
from rollwright.algorithms.regularizers.group_length import group_length_reward
from rollwright.algorithms.regularizers.kl import kl_k1, kl_k2, kl_k3, kl_k3_plus
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.regularizers.pass_rate_penalty import linear_length_penalty, pass_rate_length_penalty
from rollwright.algorithms.regularizers.positive_nll import SuccessfulTokenMean, negative_log_likelihood, positive_nll
from rollwright.algorithms.regularizers.quantile_penalty import QuantileGate, gated_quantile_penalty
from rollwright.algorithms.regularizers.reference_reset import ReferenceSync, cleared_moments, mix_reference
from rollwright.algorithms.rewards.action_rubric import rubric_of_actions
from rollwright.algorithms.rewards.bradley_terry import pair_accuracy, preference_chance, preference_loss
from rollwright.algorithms.rewards.judging import both_orders, circular_pairs, circular_scores, judge_reward
from rollwright.algorithms.rewards.passed_tests import all_tests_passed, repository_reward, share_of_tests
from rollwright.algorithms.rewards.reward_gates import (
    accumulate_when_open,
    essential_first,
    gate_step_rewards,
    scaffolded_reward,
)
from rollwright.algorithms.rewards.reward_parts import normalize_parts, weigh_parts
from rollwright.algorithms.rewards.step_similarity import step_similarity
from rollwright.algorithms.rewards.tool_call_score import score_tool_calls
from rollwright.algorithms.rewards.tool_cost import charge_tool_calls
from rollwright.algorithms.sampling.attempt_chances import (
    chance_of_any,
    chance_of_contrast,
    expected_groups,
    expected_successes,
)
from rollwright.algorithms.sampling.batch_shares import replay_share, streaming_share
from rollwright.algorithms.sampling.deficit_mixer import DeficitMixer, shares
from rollwright.algorithms.sampling.dynamic_sampling import DynamicBatch, groups_to_sample
from rollwright.algorithms.sampling.pass_rates import (
    attempts_after_probe,
    gaussian_weights,
    low_likelihood_weights,
    pass_rate_within,
)
from rollwright.algorithms.sampling.pivot_temperature import (
    PivotTemperatures,
    beta_parameters,
    discount_counts,
    temperature_of_rate,
)
from rollwright.algorithms.sampling.ramps import geometric_ramp, linear_ramp
from rollwright.algorithms.sampling.resample_on_correct import (
    inverse_penalty_chances,
    resample_on_correct,
    trace_penalty,
)
from rollwright.algorithms.stages import make_stages
from rollwright.algorithms.staleness.acceptance import accept_once
from rollwright.algorithms.staleness.candidate_gate import GapGate
from rollwright.algorithms.staleness.incomplete_groups import fate_of_group
from rollwright.algorithms.staleness.lag import row_lag, rows_within, token_lags, tokens_within
from rollwright.algorithms.staleness.version_runs import expand_versions
from rollwright.algorithms.staleness.weight_swap import swap_effects
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.covariance import (
    ClipCov,
    KlCov,
    clip_cov_stage,
    kl_cov_stage,
    select_between,
    select_largest,
)
from rollwright.algorithms.surrogates.dual_clip import DualClip
from rollwright.algorithms.surrogates.earl_gate import EarlGate, select_uncertain
from rollwright.algorithms.surrogates.geometric_clip import GeometricMeanClip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.likelihood import log_likelihood, policy_gradient
from rollwright.algorithms.surrogates.mass_gate import MassAdaptiveGate
from rollwright.algorithms.surrogates.mirror_descent import MirrorDescent
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound, OuterClip
from rollwright.algorithms.surrogates.prefix_clip import PrefixClip
from rollwright.algorithms.surrogates.sequence_clip import SequenceClip
from rollwright.algorithms.surrogates.sequence_weights import Topr, Vespo
from rollwright.algorithms.surrogates.signed_bounds import SignedBounds, count_sides
from rollwright.algorithms.surrogates.soft_gate import SoftGate
from rollwright.algorithms.surrogates.value_losses import (
    ClippedValueLoss,
    HuberValueLoss,
    clipped_value_loss,
    hl_gauss_loss,
    huber_value_loss,
)
from rollwright.algorithms.validation import check_objective

__all__ = [
    "AdaptiveKl",
    "AdaptiveUpperBound",
    "Aipo",
    "BinaryDrift",
    "Cispo",
    "CleanStreams",
    "Clip",
    "ClipCov",
    "ClippedValueLoss",
    "CompositeMask",
    "Controller",
    "CorrectionFn",
    "Counting",
    "Credit",
    "CreditFn",
    "CreditInputs",
    "DeficitMixer",
    "Description",
    "Diagnostic",
    "DoubleSidedMask",
    "DualClip",
    "DynamicBatch",
    "EarlGate",
    "EntropyFollowingClip",
    "EpisodeMean",
    "EqualSiblings",
    "FixedLength",
    "GapGate",
    "GeometricMeanClip",
    "GroupStatistics",
    "HuberValueLoss",
    "Keep",
    "KeepFn",
    "KlCov",
    "LengthAdaptive",
    "LinearAnneal",
    "LossTerms",
    "MagicEntropy",
    "MaskedImportance",
    "MaskedRatio",
    "MassAdaptiveGate",
    "Memory",
    "MirrorDescent",
    "Moments",
    "Objective",
    "ObjectiveError",
    "OffPolicySequenceMask",
    "OuterClip",
    "PRESETS",
    "PaddedBatch",
    "PartDescription",
    "PivotTemperatures",
    "PrefixClip",
    "PromptMean",
    "QuantileGate",
    "RatioFn",
    "ReferenceSync",
    "Regularizer",
    "ResponseMean",
    "RowLengths",
    "RowRejection",
    "RunningBaseline",
    "SelfNormalized",
    "SequenceClip",
    "SequenceSum",
    "SignedBounds",
    "SoftGate",
    "SourceBalance",
    "SuccessfulTokenMean",
    "Surrogate",
    "SurrogateFn",
    "TokenMean",
    "TokenStreams",
    "Topr",
    "TruncatedRatio",
    "UpdateStage",
    "Vespo",
    "WeightFn",
    "accept_once",
    "accumulate_when_open",
    "all_tests_passed",
    "anchor_state_advantage",
    "areal",
    "attempts_after_probe",
    "best_minus_second",
    "beta_parameters",
    "blend_rewards",
    "both_orders",
    "broadcast_to_calls",
    "bypass_ratio",
    "bypassing_proximal",
    "candidate_set",
    "center_then_scale_by_batch",
    "center_then_whiten_tokens",
    "center_within_group",
    "chance_of_any",
    "chance_of_contrast",
    "charge_tool_calls",
    "check_objective",
    "circular_pairs",
    "circular_scores",
    "cispo",
    "clean_streams",
    "cleared_moments",
    "clip_cov_stage",
    "clipped",
    "clipped_value_loss",
    "compaction_advantage",
    "compaction_rl",
    "compare_within",
    "condition_on_success",
    "controllers_of",
    "corrected",
    "count_sides",
    "credit_inputs_from_padded",
    "ctpo",
    "dapo",
    "decoupled_ppo",
    "describe",
    "discount_counts",
    "divide_by_mean",
    "dr_grpo",
    "effective_sample_size",
    "effort_budget",
    "effort_length_penalty",
    "entropy_bonus",
    "entropy_of_logits",
    "essential_first",
    "exact_kl",
    "exclude_truncated",
    "expand_versions",
    "expected_groups",
    "expected_successes",
    "explained_variance",
    "fate_of_group",
    "find_pivots",
    "freeze_roles",
    "from_padded",
    "gate_step_rewards",
    "gated",
    "gated_quantile_penalty",
    "gaussian_weights",
    "generalized_advantage",
    "geometric_ramp",
    "gigpo",
    "glm5_agents",
    "glm5_reasoning",
    "gmpo",
    "gpg",
    "group_diagnostics",
    "group_length_reward",
    "group_statistics",
    "groups_to_sample",
    "grpo",
    "grpo_roc",
    "gspo",
    "hl_gauss_loss",
    "huber_value_loss",
    "imitate",
    "imitate_successes",
    "implicit_process_reward",
    "intellect3",
    "inverse_penalty_chances",
    "judge_reward",
    "keep_all",
    "kept_tokens",
    "kl_cov_stage",
    "kl_in_reward",
    "kl_k1",
    "kl_k2",
    "kl_k3",
    "kl_k3_corrected",
    "kl_k3_plus",
    "lag_diagnostics",
    "learn_from_level_groups",
    "leave_one_out",
    "length_weighted_baseline",
    "linear_length_penalty",
    "linear_ramp",
    "log_likelihood",
    "loss_terms",
    "low_likelihood_weights",
    "magic",
    "mai_thinking",
    "make_stages",
    "mask_truncated",
    "masked_mean",
    "maspo",
    "mimo",
    "mix_reference",
    "mopd",
    "move_to_actions",
    "multi_teacher_gap",
    "negative_log_likelihood",
    "no_correction",
    "no_ratio",
    "normalize_by_source",
    "normalize_over_tokens",
    "normalize_parts",
    "opd",
    "opo",
    "optimal_token_baseline",
    "overlong_penalty",
    "pair_accuracy",
    "pass_at_k_credit",
    "pass_at_k_scores",
    "pass_rate_length_penalty",
    "pass_rate_within",
    "penalize_overlong",
    "penalize_segments",
    "policy_gradient",
    "policy_shift",
    "positive_nll",
    "ppo",
    "preference_chance",
    "preference_loss",
    "prefix_band",
    "prefix_mean_ratio",
    "prefix_ratio",
    "prime",
    "prime_rl",
    "process_reward_loss",
    "punish_truncated",
    "redistribute_by_quality",
    "reinforce",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "reinforce_surprises",
    "reject_hacks",
    "remax",
    "replay_share",
    "repository_reward",
    "resample_on_correct",
    "rescale_informative",
    "restore_states",
    "return_to_go",
    "rloo",
    "row_lag",
    "row_lengths",
    "rows_within",
    "rubric_of_actions",
    "rubric_reward",
    "sao",
    "sapo",
    "scaffolded_reward",
    "scale_advantages",
    "score_function",
    "score_norm_sums",
    "score_tool_calls",
    "select_between",
    "select_largest",
    "select_uncertain",
    "self_teacher_gap",
    "sequence_mean_ratio",
    "sequence_product_ratio",
    "sequence_token_ratio",
    "share_of_tests",
    "shares",
    "squared_drift",
    "staleness_ratio",
    "standardize_within_group",
    "states_of",
    "step_similarity",
    "stratified_diagnostics",
    "streaming_share",
    "streams_from_padded",
    "subtract_greedy",
    "supervised",
    "support_logprobs",
    "swap_effects",
    "task_plus_teacher_gap",
    "teacher_gap",
    "temperature_of_rate",
    "tempered_logprobs",
    "to_padded",
    "token_lags",
    "token_ratio",
    "tokens_within",
    "topr",
    "trace_penalty",
    "turn_level_advantage",
    "update_diagnostics",
    "v_trace",
    "vapo",
    "verdict_loss",
    "verdict_scores",
    "verdict_weights",
    "vespo",
    "weigh_parts",
    "weighted_vote",
    "whiten_advantages",
    "whiten_over_batch",
    "with_regularizer",
]
