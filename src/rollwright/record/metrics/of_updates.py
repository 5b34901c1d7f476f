"""Metrics of an optimizer step: loss, divergences, clipping, importance ratios, mismatch, entropy.

b, o, c, f, q are the scores of behavior, proximal, current, reference and teacher policy at the sampled token; means
are over the trained tokens whose scores are finite. ρ is o over b; with the label ratio=current/behavior it is c over
b.
"""

from typing import Final

from rollwright.record.metrics.entry import STRATA, MetricEntry

__all__ = ["OF_UPDATES"]

_UPDATE: Final = "rollwright.batches.metrics:update_metrics"
_DISTILLATION: Final = "rollwright.algorithms.diagnostics.distillation:distillation_diagnostics"
_TOKENS: Final = "rollwright.algorithms.diagnostics.token_metrics:token_diagnostics"

OF_UPDATES: Final[tuple[MetricEntry, ...]] = (
    MetricEntry(
        "weight_sum", "Σ of the token weights, in closed form from row lengths", "1", _UPDATE, labels=("component",)
    ),
    MetricEntry(
        "denominator",
        "N, B, B·L or P, as the denominator's name has it",
        "count",
        _UPDATE,
        labels=("component",),
        known_as=("loss/denominator",),
        alarm="another than the recipe names",
    ),
    MetricEntry("policy/loss", "Σ of a component's weighted terms", "reward", _UPDATE, labels=("component",)),
    MetricEntry("policy/grad_norm", "norm of the gradient before clipping", "1", _UPDATE, alarm="a spike: stop"),
    MetricEntry(
        "policy/update_norm",
        "norm of the change of the weights, from the optimizer's moments",
        "1",
        _UPDATE,
        alarm="a spike: stop",
    ),
    MetricEntry("policy/lr", "learning rate of the update", "1", _UPDATE),
    MetricEntry("policy/applied", "1 where the update moved weights", "count", _UPDATE, direction="higher"),
    MetricEntry("policy/kl_coef", "coefficient of the KL in effect", "1", _UPDATE),
    MetricEntry("entropy/coef", "coefficient of the entropy bonus in effect", "1", _UPDATE, alarm="at its bound"),
    MetricEntry(
        "policy/coef",
        "any other coefficient or bound in effect, such as surrogate.high",
        "1",
        _UPDATE,
        labels=("place",),
        known_as=("clip_k",),
        alarm="at its bound",
    ),
    MetricEntry("mask/trained_tokens", "tokens in the update's action mask", "count", _TOKENS),
    MetricEntry(
        "mask/nonfinite_tokens",
        "trained tokens with a score that is not finite",
        "count",
        _TOKENS,
        direction="lower",
        alarm="above 0: investigate",
    ),
    MetricEntry("mask/zero_advantage_tokens", "trained tokens of advantage 0", "count", _TOKENS),
    MetricEntry(
        "mask/ratio_clamped", "tokens with |c − o| > 20, or |c − b| without o", "count", _TOKENS, direction="lower"
    ),
    MetricEntry(
        "mask/k3_clamped", "tokens whose k3 of c and f is held by a bound", "count", _TOKENS, direction="lower"
    ),
    MetricEntry(
        "policy/clip_frac",
        "share of tokens whose gradient a clip took; by side: high, low, dual, outer",
        "fraction",
        _TOKENS,
        labels=("side",),
        known_as=("policy/dual_clip", "policy/outer_clip"),
        strata=STRATA,
        alarm="gate",
        note="outer near 0 in a healthy run; by stratum a side only where an update has it",
    ),
    MetricEntry(
        "policy/clip_frac_two_sided",
        "mean 1{ρ ∉ [low, high]}, ρ the objective's ratio, whatever the sign of the advantage",
        "fraction",
        _TOKENS,
        strata=STRATA,
        alarm="gate",
        note="at least policy/clip_frac of the same band",
    ),
    MetricEntry(
        "policy/mask_frac",
        "share of tokens cut from the numerator; by reason: token, sequence, support",
        "fraction",
        _TOKENS,
        labels=("reason",),
        strata=STRATA,
        alarm="gate",
    ),
    MetricEntry(
        "entropy/cov_share", "share of tokens that a stage selected, such as by covariance", "fraction", _TOKENS
    ),
    MetricEntry("policy/kl_beh", "mean(b − c)", "nat/token", _TOKENS, strata=STRATA, alarm="gate"),
    MetricEntry(
        "policy/kl_beh_k3", "mean(ρ − 1 − ln ρ), ρ = c over b", "nat/token", _TOKENS, strata=STRATA, alarm="gate"
    ),
    MetricEntry(
        "policy/kl_ref",
        "mean k3 of c and f, at most 10 a token",
        "nat/token",
        _TOKENS,
        strata=STRATA,
        alarm="reward up while it explodes: over-optimization",
        note="also in every evidence.reference_every-th step of an objective that reads no reference",
    ),
    MetricEntry(
        "policy/kl_ref_sqrt",
        "square root of policy/kl_ref",
        "1",
        _TOKENS,
        alarm="reward up while it explodes: over-optimization",
        note="the axis over which reward and held-out success are drawn",
    ),
    MetricEntry("distill/teacher_gap", "mean(q − c)", "nat/token", _TOKENS, direction="lower"),
    MetricEntry(
        "distill/forward_kl",
        "mean KL(q ‖ π) over the vocabulary, or over the teacher's k tokens and the rest",
        "nat",
        _DISTILLATION,
        direction="lower",
        note="by a caller that holds a teacher's distributions; a run has its scores of sampled tokens alone",
    ),
    MetricEntry(
        "distill/reverse_kl",
        "mean KL(π ‖ q), likewise",
        "nat",
        _DISTILLATION,
        direction="lower",
        note="of a run, minus distill/teacher_gap estimates it where π sampled the tokens",
    ),
    MetricEntry(
        "mismatch/logp_abs",
        "mean and maximum of |o − b| over tokens of the standing version",
        "nat",
        _TOKENS,
        labels=("stat",),
        direction="lower",
        alarm="gate",
        note="look after every change of engine, precision or kernels",
    ),
    MetricEntry(
        "mismatch/prob_corr",
        "Pearson's correlation of exp(o) and exp(b) over tokens of the standing version",
        "1",
        _TOKENS,
        direction="higher",
        note="above .99 in one report",
    ),
    MetricEntry("is/ess", "(Σρ)²/Σρ²", "tokens", _TOKENS, labels=("ratio",), direction="higher", alarm="gate"),
    MetricEntry(
        "is/ess_frac",
        "(Σρ)²/(n·Σρ²)",
        "fraction",
        _TOKENS,
        labels=("ratio",),
        strata=STRATA,
        direction="higher",
        alarm="gate",
    ),
    MetricEntry(
        "is/chi2",
        "mean(ρ²) − 1",
        "1",
        _TOKENS,
        labels=("ratio",),
        note="0 where the policies are equal",
        direction="lower",
    ),
    MetricEntry("is/ppl_ratio", "exp(−mean ln ρ)", "1", _TOKENS, labels=("ratio",)),
    MetricEntry("is/max", "largest ρ", "ratio", _TOKENS, labels=("ratio",), note="by lag", strata=STRATA),
    MetricEntry(
        "is/quantiles",
        "ρ at .5, .9, .95, .99",
        "ratio",
        _TOKENS,
        labels=("ratio", "quantile"),
        strata=STRATA,
        note="read the tails",
    ),
    MetricEntry(
        "is/frac_truncated",
        "share of tokens whose correction was held at its cap",
        "fraction",
        _TOKENS,
        strata=STRATA,
        direction="lower",
        alarm="gate",
    ),
    MetricEntry(
        "entropy/full",
        "mean entropy over the vocabulary",
        "nat",
        _TOKENS,
        note="one study: the first 200 of 2,400 steps took 73% of the loss of entropy",
        strata=STRATA,
    ),
    MetricEntry("entropy/sampled", "mean −c", "nat", _TOKENS, strata=STRATA),
    MetricEntry(
        "data/coef_mass",
        "a source's share of Σ |weight·correction·advantage| over kept tokens",
        "fraction",
        _UPDATE,
        labels=("source",),
        note="who receives the gradient",
    ),
)
