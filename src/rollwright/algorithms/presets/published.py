"""Presets that carry a system's or a model's name, as compositions of its published loss (methods section 12).

What a publication leaves open has no default: the denominator of GLM-5, the bounds of MAI-Thinking-1.
"""

from dataclasses import dataclass, replace

from rollwright.algorithms.corrections.masked_ratio import MaskedRatio
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.whitening import normalize_over_tokens
from rollwright.algorithms.denominators.plain import TokenMean
from rollwright.algorithms.disclosure import chosen
from rollwright.algorithms.objective import CreditFn, Objective, Regularizer, WeightFn
from rollwright.algorithms.presets.building import clipped, corrected, gated, with_regularizer
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, staleness_ratio
from rollwright.algorithms.regularizers.entropy_bonus import entropy_regularizer
from rollwright.algorithms.regularizers.magic_entropy import MagicEntropy
from rollwright.algorithms.surrogates.binary_drift import BinaryDrift, squared_drift
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.importance_mask import DoubleSidedMask, MaskedImportance
from rollwright.algorithms.surrogates.outer_clip import AdaptiveUpperBound, OuterClip

__all__ = [
    "EntropyFollowingClip",
    "areal",
    "decoupled_ppo",
    "glm5_agents",
    "glm5_reasoning",
    "grpo_roc",
    "intellect3",
    "magic",
    "mai_thinking",
    "prime_rl",
]

_BEHAVIOR = frozenset({"behavior"})


def decoupled_ppo(*, clip: Clip | None = None) -> Objective:
    """Decoupled PPO: the clip around the proximal policy, each token weighed by proximal over behavior.

    Args:
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective, with group-standardised credit.
    """
    objective = clipped("decoupled_ppo", credit=standardize_within_group, clip=clip or Clip(), weights=TokenMean())
    return corrected(objective, correction=staleness_ratio)


def areal(*, clip: Clip | None = None) -> Objective:
    """AReaL: rewards normalised over the batch's tokens, decoupled PPO, token mean (arXiv:2505.24298).

    Args:
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; its rewards are ±5.
    """
    return replace(decoupled_ppo(clip=clip), name="areal", credit=normalize_over_tokens)


def grpo_roc() -> Objective:
    """rStar2's GRPO-RoC: group mean and std, clip-higher, token mean; groups are resampled on correct attempts.

    Returns:
        The objective, without KL and entropy terms; the resampling is the sampler's.
    """
    return clipped("grpo_roc", credit=standardize_within_group, clip=Clip(high=1.28), weights=TokenMean())


def magic(*, target: float = 0.2, step: float = 0.005, cap: float = 1.0) -> Objective:
    """MAGIC: GRPO's credit and clip, token mean, and an entropy bonus that acts below a target.

    Args:
        target: nats.
        step: by which the coefficient moves.
        cap: of the coefficient.

    Returns:
        The objective, with its own controller: make one for each run.
    """
    objective = clipped("magic", credit=standardize_within_group, clip=Clip(), weights=TokenMean())
    bonus = entropy_regularizer(MagicEntropy(target=target, step=step, cap=cap))
    return with_regularizer(objective, bonus, needs=frozenset({"entropy"}))


def intellect3(*, low: float = 0.5, high: float = 5.0) -> Objective:
    """INTELLECT-3: centred credit, current over behavior as detached weight, tokens outside the band dropped.

    Args:
        low: of the ratio; inferred.
        high: of the ratio.

    Returns:
        The objective, in bypass mode.
    """
    return gated(
        "intellect3",
        credit=center_within_group,
        ratio=bypass_ratio,
        surrogate=MaskedImportance(low=low, high=high),
        weights=TokenMean(),
        needs=_BEHAVIOR,
    )


def glm5_reasoning(*, weights: WeightFn | None = None, low: float = 0.5, high: float = 2.0) -> Objective:
    """GLM-5's reasoning stage: IcePop's mask on proximal over behavior, clip-higher.

    Args:
        weights: the denominator, which the report leaves open.
        low: of proximal over behavior; our reading of the cutoff 2.
        high: of proximal over behavior.

    Returns:
        The objective.
    """
    rule = chosen("weights", weights, undisclosed_by="GLM-5's report")
    objective = clipped("glm5_reasoning", credit=standardize_within_group, clip=Clip(high=1.28), weights=rule)
    return corrected(objective, correction=staleness_ratio, keep=MaskedRatio(low=low, high=high))


def glm5_agents(*, weights: WeightFn | None = None, below: float = 0.3, above: float = 5.0) -> Objective:
    """GLM-5's agent stage: a strict double-sided mask on current over behavior.

    Args:
        weights: the denominator, which the report leaves open.
        below: width of the band under 1.
        above: width of the band over 1.

    Returns:
        The objective, in bypass mode.
    """
    return gated(
        "glm5_agents",
        credit=standardize_within_group,
        ratio=bypass_ratio,
        surrogate=DoubleSidedMask(below=below, above=above),
        weights=chosen("weights", weights, undisclosed_by="GLM-5's report"),
        needs=_BEHAVIOR,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EntropyFollowingClip:
    """The numbers of MAI-Thinking-1's clip, none of which its report gives except the target."""

    low: float | None = None
    """Lower bound of the ratio, 1 - ε."""
    step: float | None = None
    """δ, by which the upper bound moves."""
    largest: float | None = None
    """k_max, where its widening ends."""
    outer_low: float | None = None
    """r_min."""
    outer_high: float | None = None
    """r_max."""
    target: float = 0.3
    """Entropy to hold, nats."""


def mai_thinking(*, credit: CreditFn | None = None, clip: EntropyFollowingClip) -> Objective:
    """MAI-Thinking-1: an upper bound that follows the entropy, inside a hard bound of the ratio, token mean.

    Args:
        credit: centred or standardised, which the report leaves open.
        clip: its numbers.

    Returns:
        The objective, with its own controller: make one for each run.
    """
    upper = AdaptiveUpperBound(low=clip.low, step=clip.step, largest=clip.largest, target=clip.target)
    surrogate = OuterClip(low=clip.low, high=upper, outer_low=clip.outer_low, outer_high=clip.outer_high)
    return gated(
        "mai_thinking",
        credit=chosen("credit", credit, undisclosed_by="MAI-Thinking-1's report"),
        surrogate=surrogate,
        weights=TokenMean(),
        needs=frozenset({"proximal", "entropy"}),
    )


def prime_rl(*, low: float = 0.2, high: float = 0.2, drift: float = 1e-3) -> Objective:
    """prime-rl's default: centred credit, a mask on the difference of probabilities, a drift term.

    Args:
        low: how far a bad token's probability may fall.
        high: how far a good token's probability may rise.
        drift: coefficient of (c - b)².

    Returns:
        The objective, in bypass mode.
    """
    objective = gated(
        "prime_rl",
        credit=center_within_group,
        ratio=bypass_ratio,
        surrogate=BinaryDrift(low=low, high=high),
        weights=TokenMean(),
        needs=_BEHAVIOR,
    )
    term = Regularizer(component="drift", coefficient=drift, per_token=squared_drift, weights=TokenMean())
    return with_regularizer(objective, term, needs=frozenset())
