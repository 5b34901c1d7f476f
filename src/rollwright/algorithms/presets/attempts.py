"""Presets that compare attempts or stand on the plain return: no critic, no second model."""

from functools import partial

from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.credit.centered import center_within_group
from rollwright.algorithms.credit.greedy_baseline import subtract_greedy
from rollwright.algorithms.credit.informative import rescale_informative
from rollwright.algorithms.credit.leave_one_out import leave_one_out
from rollwright.algorithms.credit.length_weighted import length_weighted_baseline
from rollwright.algorithms.credit.return_to_go import return_to_go
from rollwright.algorithms.credit.standardized import standardize_within_group
from rollwright.algorithms.credit.supervised import imitate
from rollwright.algorithms.credit.truncation import mask_truncated, penalize_overlong
from rollwright.algorithms.credit.whitening import center_then_whiten_tokens, whiten_over_batch
from rollwright.algorithms.denominators.plain import FixedLength, ResponseMean, SequenceSum, TokenMean
from rollwright.algorithms.objective import Objective, WeightFn
from rollwright.algorithms.presets.building import clipped, score_function
from rollwright.algorithms.ratios.token_ratios import no_ratio
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.likelihood import log_likelihood

__all__ = [
    "dapo",
    "dr_grpo",
    "gpg",
    "grpo",
    "opo",
    "reinforce",
    "reinforce_plus_plus",
    "reinforce_plus_plus_baseline",
    "remax",
    "rloo",
    "supervised",
]


def reinforce(*, discount: float = 1.0, baseline: float = 0.0, weights: WeightFn | None = None) -> Objective:
    """REINFORCE: return-to-go against a constant baseline, summed over each response.

    Args:
        discount: γ of rewards on the way.
        baseline: a constant, verifier units.
        weights: the denominator; None is the sequence sum, the unbiased form.

    Returns:
        The objective.
    """
    credit = partial(return_to_go, discount=discount, baseline=baseline)
    return score_function("reinforce", credit=credit, weights=weights or SequenceSum())


def rloo(*, weights: WeightFn | None = None) -> Objective:
    """RLOO: REINFORCE against the other attempts of the group.

    Args:
        weights: the denominator; None is the sequence sum.

    Returns:
        The objective.
    """
    return score_function("rloo", credit=leave_one_out, weights=weights or SequenceSum())


def grpo(*, ddof: int = 1, eps: float = 1e-6, clip: Clip | None = None, weights: WeightFn | None = None) -> Objective:
    """GRPO: group mean and std, clip, response mean.

    Args:
        ddof: of the group's standard deviation.
        eps: added to it.
        clip: of the clip; None is [0.8, 1.2].
        weights: the denominator; None is the response mean.

    Returns:
        The objective; its KL term is `with_regularizer`.
    """
    credit = partial(standardize_within_group, ddof=ddof, eps=eps)
    return clipped("grpo", credit=credit, clip=clip or Clip(), weights=weights or ResponseMean())


def dr_grpo(*, max_tokens: int, clip: Clip | None = None) -> Objective:
    """Dr.GRPO: distance from the group mean without std, and a fixed length as denominator.

    Args:
        max_tokens: L, the longest response that the recipe allows.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective.
    """
    return clipped("dr_grpo", credit=center_within_group, clip=clip or Clip(), weights=FixedLength(length=max_tokens))


def dapo(
    *, max_tokens: int, buffer_tokens: int, ddof: int = 1, eps: float = 1e-6, clip: Clip | None = None
) -> Objective:
    """DAPO: group mean and std, clip-higher, token mean, a soft overlong penalty, and truncated rows masked.

    Args:
        max_tokens: L of the penalty.
        buffer_tokens: C of the penalty.
        ddof: of the group's standard deviation.
        eps: added to it.
        clip: of the clip; None is [0.8, 1.28].

    Returns:
        The objective; dynamic sampling is the runtime's.
    """
    standardized = partial(standardize_within_group, ddof=ddof, eps=eps)
    penalized = partial(penalize_overlong, credit=standardized, max_tokens=max_tokens, buffer_tokens=buffer_tokens)
    return clipped(
        "dapo",
        credit=partial(mask_truncated, credit=penalized),
        clip=clip or Clip(high=1.28),
        weights=TokenMean(),
    )


def reinforce_plus_plus(*, discount: float = 1.0, eps: float = 1e-8, clip: Clip | None = None) -> Objective:
    """REINFORCE++: returns whitened over the whole batch, PPO's clip, token mean (arXiv:2501.03262).

    Args:
        discount: γ of rewards on the way.
        eps: added to the variance.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective; its KL is `kl_in_reward` around the credit.
    """
    credit = partial(whiten_over_batch, discount=discount, eps=eps)
    return clipped("reinforce_plus_plus", credit=credit, clip=clip or Clip(), weights=TokenMean())


def reinforce_plus_plus_baseline(*, eps: float = 1e-8, clip: Clip | None = None) -> Objective:
    """REINFORCE++-baseline: centred in the group, then whitened over all tokens, PPO's clip, token mean.

    Args:
        eps: added to the variance.
        clip: of the clip; None is [0.8, 1.2].

    Returns:
        The objective.
    """
    credit = partial(center_then_whiten_tokens, eps=eps)
    return clipped("reinforce_plus_plus_baseline", credit=credit, clip=clip or Clip(), weights=TokenMean())


def remax(*, weights: WeightFn | None = None) -> Objective:
    """ReMax: return minus the reward of the greedy attempt at the task (arXiv:2310.10505).

    Args:
        weights: the denominator; None is the sequence sum.

    Returns:
        The objective; its credit reads `greedy_reward`.
    """
    return score_function("remax", credit=subtract_greedy, weights=weights or SequenceSum())


def opo(*, weights: WeightFn | None = None) -> Objective:
    """OPO: reward minus the length-weighted mean of the group, one on-policy update (arXiv:2505.23585).

    Args:
        weights: the denominator; None is the token mean, in which its credit is zero-mean.

    Returns:
        The objective.
    """
    return score_function("opo", credit=length_weighted_baseline, weights=weights or TokenMean())


def gpg(*, norm: float = 1.0, weights: WeightFn | None = None) -> Objective:
    """GPG: centred in the group and scaled up for groups without contrast, no ratio and no clip (arXiv:2504.02546).

    Args:
        norm: F_norm, by which the credit is divided.
        weights: the denominator; None is the token mean.

    Returns:
        The objective.
    """
    return score_function("gpg", credit=partial(rescale_informative, norm=norm), weights=weights or TokenMean())


def supervised(*, weights: WeightFn | None = None) -> Objective:
    """Imitation of demonstrations: mean negative log-likelihood of action tokens.

    Args:
        weights: the denominator; None is the token mean.

    Returns:
        The objective; its main component is `nll`.
    """
    return Objective(
        name="supervised",
        credit=imitate,
        ratio=no_ratio,
        keep=keep_all,
        correction=no_correction,
        surrogate=log_likelihood,
        weights=weights or TokenMean(),
        regularizers=(),
        needs=frozenset(),
        component="nll",
    )
