"""What random compositions are drawn from: every part of the catalogue, with numbers that make it act."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal

from torch import Tensor

from rollwright.algorithms import (
    Clip,
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
    center_within_group,
    exclude_truncated,
    kl_k1,
    kl_k2,
    kl_k3,
    kl_k3_plus,
    leave_one_out,
    mask_truncated,
    no_correction,
    no_ratio,
    penalize_overlong,
    punish_truncated,
    return_to_go,
    staleness_ratio,
    standardize_within_group,
    token_ratio,
)
from rollwright.algorithms.corrections.composite_mask import CompositeMask
from rollwright.algorithms.corrections.correction import keep_all
from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.corrections.off_policy_mask import OffPolicySequenceMask
from rollwright.algorithms.corrections.row_rejection import RowRejection
from rollwright.algorithms.corrections.truncated_ratio import TruncatedRatio
from rollwright.algorithms.credit.anchor_state import anchor_state_advantage
from rollwright.algorithms.credit.by_source import normalize_by_source
from rollwright.algorithms.credit.calls import broadcast_to_calls
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
from rollwright.algorithms.credit.implicit_process import implicit_process_reward
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.kl_in_reward import kl_in_reward
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.level_groups import learn_from_level_groups
from rollwright.algorithms.credit.maximum_likelihood import divide_by_mean
from rollwright.algorithms.credit.optimal_token import optimal_token_baseline
from rollwright.algorithms.credit.pass_at_k import best_minus_second, pass_at_k_credit
from rollwright.algorithms.credit.quality import redistribute_by_quality, reject_hacks
from rollwright.algorithms.credit.roles import blend_rewards, freeze_roles
from rollwright.algorithms.credit.running_baseline import RunningBaseline
from rollwright.algorithms.credit.segment_penalty import penalize_segments
from rollwright.algorithms.credit.self_distillation import reinforce_surprises, self_teacher_gap
from rollwright.algorithms.credit.successes import imitate_successes
from rollwright.algorithms.credit.turn_level import turn_level_advantage
from rollwright.algorithms.credit.v_trace import v_trace
from rollwright.algorithms.credit.whitening import (
    center_then_scale_by_batch,
    center_then_whiten_tokens,
    normalize_over_tokens,
    scale_advantages,
    whiten_advantages,
    whiten_over_batch,
)
from rollwright.algorithms.denominators.equal_siblings import EqualSiblings
from rollwright.algorithms.denominators.plain import EpisodeMean
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.objective import (
    Controller,
    CorrectionFn,
    Credit,
    CreditFn,
    KeepFn,
    RatioFn,
    SurrogateFn,
    TokenStreams,
    UpdateStage,
    WeightFn,
)
from rollwright.algorithms.ratios.prefix_ratios import prefix_mean_ratio, prefix_ratio
from rollwright.algorithms.ratios.sequence_ratios import (
    sequence_mean_ratio,
    sequence_product_ratio,
    sequence_token_ratio,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio
from rollwright.algorithms.regularizers.adaptive_kl import AdaptiveKl
from rollwright.algorithms.regularizers.annealing import LinearAnneal
from rollwright.algorithms.regularizers.corrected_kl import kl_k3_corrected
from rollwright.algorithms.regularizers.effort import effort_budget, effort_length_penalty
from rollwright.algorithms.regularizers.entropy_bonus import entropy_bonus
from rollwright.algorithms.regularizers.group_length import group_length_reward
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.regularizers.pass_rate_penalty import linear_length_penalty, pass_rate_length_penalty
from rollwright.algorithms.regularizers.positive_nll import SuccessfulTokenMean, negative_log_likelihood
from rollwright.algorithms.regularizers.quantile_penalty import QuantileGate, gated_quantile_penalty
from rollwright.algorithms.rewards.reward_gates import gate_step_rewards
from rollwright.algorithms.rewards.reward_parts import normalize_parts, weigh_parts
from rollwright.algorithms.rewards.tool_cost import charge_tool_calls
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.cispo import Aipo, Cispo
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
from rollwright.algorithms.surrogates.value_losses import ClippedValueLoss, HuberValueLoss
from tests.algorithms.battery import Held
from tests.algorithms.drawn_batches import PARTS_OF_REWARD

__all__ = [
    "CORRECTIONS",
    "CREDITS",
    "NORMALIZED",
    "RATIOS",
    "STAGES",
    "SURROGATES",
    "TERMS",
    "WEIGHTS",
    "Correction",
    "CreditStage",
    "Loss",
    "Ratio",
    "Term",
]

PROXIMAL, BEHAVIOR, VALUES = frozenset({"proximal"}), frozenset({"behavior"}), frozenset({"values"})
BOTH = PROXIMAL | BEHAVIOR
WEIGHED: Mapping[str, float] = dict.fromkeys(PARTS_OF_REWARD, 0.5)


@dataclass(frozen=True, kw_only=True)
class Ratio:
    make: RatioFn
    needs: frozenset[str] = frozenset()
    held: Held = "nothing"


@dataclass(frozen=True, kw_only=True)
class Correction:
    keep: KeepFn = keep_all
    correction: CorrectionFn = no_correction
    needs: frozenset[str] = BOTH


@dataclass(frozen=True, kw_only=True)
class Loss:
    surrogate: SurrogateFn
    stages: tuple[UpdateStage, ...] = ()
    needs: frozenset[str] = frozenset()
    held: Held = "nothing"
    component: str = "policy_gradient"
    acts_without_advantage: bool = False


@dataclass(frozen=True, kw_only=True)
class Term:
    component: str
    per_token: Callable[[TokenStreams], Tensor]
    coefficient: float | Controller
    needs: frozenset[str] = frozenset()


CreditStage = Callable[..., Credit]
"""Takes the credit that it stands around as `credit`."""


def over_both(make, held: Held = "nothing"):
    return {
        "proximal": Ratio(make=make, needs=PROXIMAL, held=held),
        "behavior": Ratio(make=partial(make, over="behavior"), needs=BEHAVIOR, held=held),
    }


def kl(per_token, coefficient: float | Controller = 0.1):
    return Term(component="kl", per_token=per_token, coefficient=coefficient, needs=frozenset({"reference"}))


def upper_bound():
    return AdaptiveUpperBound(low=0.8, step=0.01, largest=1.4)


CREDITS: Mapping[str, CreditFn] = {
    "return_to_go": partial(return_to_go, discount=0.9, baseline=0.5),
    "RunningBaseline": RunningBaseline(initial=0.3),
    "leave_one_out": leave_one_out,
    "standardize_within_group": partial(standardize_within_group, ddof=0, eps=1e-4),
    "center_within_group": center_within_group,
    "whiten_over_batch": partial(whiten_over_batch, discount=0.9),
    "center_then_whiten_tokens": center_then_whiten_tokens,
    "center_then_whiten_tokens, level too": partial(center_then_whiten_tokens, level_groups="whiten"),
    "center_then_scale_by_batch": center_then_scale_by_batch,
    "normalize_over_tokens": normalize_over_tokens,
    "subtract_greedy": subtract_greedy,
    "length_weighted_baseline": length_weighted_baseline,
    "optimal_token_baseline": partial(optimal_token_baseline, max_ratio=2.0),
    "rescale_informative": rescale_informative,
    "broadcast_to_calls": broadcast_to_calls,
    "broadcast_to_calls, by call": partial(broadcast_to_calls, baseline="call"),
    "divide_by_mean": divide_by_mean,
    "pass_at_k_credit": partial(pass_at_k_credit, k=2),
    "best_minus_second": partial(best_minus_second, scaling="std"),
    "imitate_successes": imitate_successes,
    "generalized_advantage": partial(generalized_advantage, discount=0.95, policy_lambda=0.9, value_lambda=0.8),
    "LengthAdaptive": partial(generalized_advantage, policy_lambda=LengthAdaptive(alpha=0.5)),
    "turn_level_advantage": partial(turn_level_advantage, discount=0.9, decay=0.8),
    "anchor_state_advantage": partial(anchor_state_advantage, scaling="std"),
    "implicit_process_reward": implicit_process_reward,
    "implicit_process_reward, released": partial(implicit_process_reward, form="released"),
    "compaction_advantage": partial(compaction_advantage, policy_lambda=0.9, boundary="value"),
    "teacher_gap": partial(teacher_gap, discount=0.5),
    "multi_teacher_gap": partial(multi_teacher_gap, teachers={0: "teacher", 1: "informed"}, weights={0: 1.0, 1: 0.5}),
    "policy_shift": partial(policy_shift, scale=0.5),
    "self_teacher_gap": self_teacher_gap,
    "redistribute_by_quality": partial(redistribute_by_quality, max_scale=3.0),
    "v_trace": v_trace,
    "normalize_parts": partial(normalize_parts, weights=WEIGHED),
}
QUANTILES = QuantileGate(penalty=0.5, percentile=50.0, slack=1.0, saturation=4.0, power=1.0, min_pass_rate=0.2)
STAGES: Mapping[str, CreditStage] = {
    "whiten_advantages": whiten_advantages,
    "scale_advantages": scale_advantages,
    "compare_within": partial(compare_within, by=("dispatch", "role")),
    "compare_within, state": partial(compare_within, by=("dispatch", "state")),
    "blend_rewards": partial(blend_rewards, trajectory=1.0, role=0.5, turn=0.25),
    "freeze_roles": partial(freeze_roles, roles=(1,)),
    "normalize_by_source": normalize_by_source,
    "learn_from_level_groups": partial(learn_from_level_groups, alpha=0.5),
    "task_plus_teacher_gap": partial(task_plus_teacher_gap, eta=0.5, kappa=2.0),
    "reinforce_surprises": partial(reinforce_surprises, bonus=0.5),
    "reject_hacks": reject_hacks,
    "penalize_segments": partial(penalize_segments, kappa=1.5, alpha_max=2.0, beta_min=0.2),
    "kl_in_reward": partial(kl_in_reward, coefficient=0.1, scored_by="behavior"),
    "kl_in_reward, advantages": partial(
        kl_in_reward, coefficient=AdaptiveKl(initial=0.1, target=0.05, num_rows=8), place="advantages"
    ),
    "penalize_overlong": partial(penalize_overlong, max_tokens=4, buffer_tokens=2),
    "group_length_reward": group_length_reward,
    "gated_quantile_penalty": partial(gated_quantile_penalty, gate=QUANTILES),
    "pass_rate_length_penalty": partial(pass_rate_length_penalty, max_tokens=4),
    "linear_length_penalty": partial(linear_length_penalty, output_weight=0.1),
    "effort_budget": partial(effort_budget, multiplier=LinearAnneal(start=2.0, end=1.0, over=5)),
    "effort_length_penalty": partial(effort_length_penalty, max_tokens=4, scale=0.5),
    "punish_truncated": punish_truncated,
    "mask_truncated": mask_truncated,
    "exclude_truncated": exclude_truncated,
    "weigh_parts": partial(weigh_parts, weights=WEIGHED),
    "gate_step_rewards": partial(gate_step_rewards, threshold=0.5),
    "charge_tool_calls": partial(charge_tool_calls, cost=0.1, cap=0.3),
}
"""Around a credit: truncation, comparison groups, shaped rewards, scaled advantages."""

RATIOS: Mapping[str, Ratio] = {
    "no_ratio": Ratio(make=no_ratio),
    "token_ratio": Ratio(make=token_ratio, needs=PROXIMAL),
    "bypass_ratio": Ratio(make=bypass_ratio, needs=BEHAVIOR),
    **{f"sequence_product_ratio, {over}": one for over, one in over_both(sequence_product_ratio).items()},
    **{f"sequence_mean_ratio, {over}": one for over, one in over_both(sequence_mean_ratio).items()},
    **{f"sequence_token_ratio, {over}": one for over, one in over_both(sequence_token_ratio, "other tokens").items()},
    **{f"prefix_ratio, {over}": one for over, one in over_both(prefix_ratio, "other tokens").items()},
    **{f"prefix_mean_ratio, {over}": one for over, one in over_both(prefix_mean_ratio, "other tokens").items()},
}
CORRECTIONS: Mapping[str, Correction] = {
    "none": Correction(needs=frozenset()),
    "staleness_ratio": Correction(correction=staleness_ratio),
    "TruncatedRatio": Correction(correction=TruncatedRatio(cap=1.3)),
    "TruncatedRatio, sequence": Correction(correction=TruncatedRatio(cap=1.3, level="sequence")),
    "TruncatedRatio, current": Correction(correction=TruncatedRatio(cap=1.3, of="current"), needs=BEHAVIOR),
    "MaskedRatio": Correction(keep=MaskedRatio(low=0.7, high=1.4), correction=staleness_ratio),
    "CompositeMask": Correction(keep=CompositeMask(token=(0.6, 1.6), row_mean=(0.7, 1.4)), correction=staleness_ratio),
    "RowRejection": Correction(keep=RowRejection(statistic="k3_mean", high=0.1)),
    "OffPolicySequenceMask": Correction(keep=OffPolicySequenceMask(delta=0.1)),
    "OffPolicySequenceMask, current": Correction(keep=OffPolicySequenceMask(delta=0.1, of="current"), needs=BEHAVIOR),
}
SURROGATES: Mapping[str, Loss] = {
    "policy_gradient": Loss(surrogate=policy_gradient),
    "log_likelihood": Loss(surrogate=log_likelihood, component="nll", acts_without_advantage=True),
    "Clip": Loss(surrogate=Clip(high=1.28)),
    "Clip, following": Loss(surrogate=Clip(high=upper_bound())),
    "DualClip": Loss(surrogate=DualClip(dual=1.5)),
    "Cispo": Loss(surrogate=Cispo(high=1.3), held="weights"),
    "Aipo": Loss(surrogate=Aipo(cap=1.3), held="weights"),
    "SequenceClip": Loss(surrogate=SequenceClip(low=0.8, high=1.2)),
    "SequenceClip, mean": Loss(surrogate=SequenceClip(low=0.8, high=1.2, advantage="mean_over_row")),
    "PrefixClip": Loss(surrogate=PrefixClip(low=0.3, high=0.3, dual=0.5)),
    "SoftGate": Loss(surrogate=SoftGate()),
    "ClipCov": Loss(surrogate=ClipCov(), stages=(clip_cov_stage(share=0.3, low=0.02),), needs=PROXIMAL),
    "KlCov": Loss(
        surrogate=KlCov(coefficient=0.5),
        stages=(kl_cov_stage(share=0.3),),
        needs=PROXIMAL,
        acts_without_advantage=True,
    ),
    "EarlGate": Loss(
        surrogate=EarlGate(surrogate=Clip()), stages=(earl_gate_stage(share=0.5),), needs=frozenset({"entropy"})
    ),
    "Topr": Loss(surrogate=Topr(), held="weights"),
    "MaskedImportance": Loss(
        surrogate=MaskedImportance(low=0.7, high=1.5, kl_tau=0.1), held="weights", acts_without_advantage=True
    ),
    "DoubleSidedMask": Loss(surrogate=DoubleSidedMask(above=0.5)),
    "BinaryDrift": Loss(surrogate=BinaryDrift(low=0.05, high=0.05), needs=BEHAVIOR),
    "OuterClip": Loss(surrogate=OuterClip(low=0.8, high=1.3, outer_low=0.6, outer_high=1.6)),
    "SignedBounds": Loss(surrogate=SignedBounds(positive_high=1.4, negative_low=0.7)),
    "SignedBounds, clip": Loss(
        surrogate=SignedBounds(positive_high=1.4, negative_low=0.7, outside="clip"), held="weights"
    ),
    "Vespo": Loss(surrogate=Vespo(), held="weights"),
    "GeometricMeanClip": Loss(surrogate=GeometricMeanClip(log_clip=0.2, log_clip_low=0.3)),
    "GeometricMeanClip, mean": Loss(surrogate=GeometricMeanClip(log_clip=0.3, advantage="mean_over_row")),
    "MassAdaptiveGate": Loss(surrogate=MassAdaptiveGate(sigma_base=0.3, gate="differentiated")),
    "MirrorDescent": Loss(surrogate=MirrorDescent(tau=0.3), acts_without_advantage=True),
}
WEIGHTS: Mapping[str, WeightFn] = {
    **{rule.name: rule for rule in (TokenMean(), ResponseMean(), FixedLength(length=7), SequenceSum(), EpisodeMean())},
    "prompt_mean": PromptMean(),
    "prompt_mean, token": PromptMean(within="token"),
    "equal_siblings": EqualSiblings(),
    "source_balance": SourceBalance(base=ResponseMean(), targets={0: 0.7, 1: 0.3}),
    "successful_token_mean": SuccessfulTokenMean(threshold=0.25),
    "token_mean, kept": TokenMean(counting="kept"),
    "response_mean, kept": ResponseMean(counting="kept"),
    "prompt_mean, kept": PromptMean(counting="kept"),
    "episode_mean, kept": EpisodeMean(counting="kept"),
}
TERMS: Mapping[str, Term | None] = {
    "nothing": None,
    "squared_drift": Term(component="drift", per_token=squared_drift, coefficient=0.5, needs=BEHAVIOR),
    "ClippedValueLoss": Term(component="value", per_token=ClippedValueLoss(), coefficient=0.5, needs=VALUES),
    "HuberValueLoss": Term(component="value", per_token=HuberValueLoss(delta=0.5), coefficient=0.5, needs=VALUES),
    "kl_k1": kl(kl_k1),
    "kl_k2": kl(kl_k2, AdaptiveKl(initial=0.1, target=0.05, num_rows=8)),
    "kl_k3": kl(kl_k3),
    "kl_k3_plus": kl(kl_k3_plus),
    "kl_k3_corrected": Term(
        component="kl", per_token=kl_k3_corrected, coefficient=0.1, needs=frozenset({"reference"}) | BEHAVIOR
    ),
    "entropy_bonus": Term(
        component="entropy", per_token=entropy_bonus, coefficient=MagicEntropy(), needs=frozenset({"entropy"})
    ),
    "negative_log_likelihood": Term(component="positive_nll", per_token=negative_log_likelihood, coefficient=0.1),
}
NORMALIZED: Mapping[str, Literal["token", "row"]] = {"token": "token", "row": "row"}
