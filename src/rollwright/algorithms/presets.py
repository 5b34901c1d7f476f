"""Named compositions, and the steps that change one: truncation, bypass, a KL term.

Each preset is an `Objective`; what the documents leave open (denominator, reward scaling, truncation) is an argument
or a step of its own.
"""

from dataclasses import replace
from functools import partial

from rollwright.algorithms.centered import center_within_group
from rollwright.algorithms.clipping import Clip
from rollwright.algorithms.correction import keep_all, no_correction
from rollwright.algorithms.denominators import FixedLength, ResponseMean, SequenceSum, TokenMean
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.leave_one_out import leave_one_out
from rollwright.algorithms.likelihood import log_likelihood, policy_gradient
from rollwright.algorithms.objective import CreditFn, Objective, Regularizer, WeightFn
from rollwright.algorithms.ratios import bypass_ratio, no_ratio, token_ratio
from rollwright.algorithms.return_to_go import return_to_go
from rollwright.algorithms.standardized import standardize_within_group
from rollwright.algorithms.supervised import imitate
from rollwright.algorithms.truncation import mask_truncated, penalize_overlong

__all__ = [
    "bypassing_proximal",
    "clipped",
    "dapo",
    "dr_grpo",
    "grpo",
    "reinforce",
    "rloo",
    "score_function",
    "supervised",
    "with_regularizer",
]


def clipped(name: str, *, credit: CreditFn, clip: Clip, weights: WeightFn) -> Objective:
    """Any credit with the token ratio and PPO's clip.

    Args:
        name: of the composition, for manifests and errors.
        credit: the estimator.
        clip: where a token stops being pushed.
        weights: the denominator.

    Returns:
        An objective that needs proximal scores.
    """
    return Objective(
        name=name,
        credit=credit,
        ratio=token_ratio,
        keep=keep_all,
        correction=no_correction,
        surrogate=clip,
        weights=weights,
        regularizers=(),
        needs=frozenset({"proximal"}),
    )


def score_function(name: str, *, credit: CreditFn, weights: WeightFn) -> Objective:
    """Any credit with the plain score-function gradient; right for one update a step on fresh tokens.

    Args:
        name: of the composition, for manifests and errors.
        credit: the estimator.
        weights: the denominator.

    Returns:
        An objective that needs no other scores than the current ones.
    """
    return Objective(
        name=name,
        credit=credit,
        ratio=no_ratio,
        keep=keep_all,
        correction=no_correction,
        surrogate=policy_gradient,
        weights=weights,
        regularizers=(),
        needs=frozenset(),
    )


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


def bypassing_proximal(objective: Objective) -> Objective:
    """The same objective with current/behavior as its ratio: no proximal scores, staleness inside the clip.

    Args:
        objective: one that clips the token ratio.

    Returns:
        The objective in bypass mode.
    """
    if objective.ratio is not token_ratio:
        raise ObjectiveError(f"{objective.name} has no proximal ratio to bypass; only a token ratio can be bypassed.")
    return replace(objective, ratio=bypass_ratio, needs=(objective.needs - {"proximal"}) | {"behavior"})


def with_regularizer(objective: Objective, regularizer: Regularizer, *, needs: frozenset[str]) -> Objective:
    """The same objective with one more term.

    Args:
        objective: the composition.
        regularizer: the term.
        needs: the streams that it reads, such as `reference`.

    Returns:
        The longer composition.
    """
    return replace(objective, regularizers=(*objective.regularizers, regularizer), needs=objective.needs | needs)
