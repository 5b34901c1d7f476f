"""What every preset is built with: a composition with the usual parts, and the steps that change one."""

from dataclasses import replace

from rollwright.algorithms.corrections.correction import keep_all, no_correction
from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import (
    CorrectionFn,
    CreditFn,
    KeepFn,
    Objective,
    RatioFn,
    Regularizer,
    SurrogateFn,
    WeightFn,
)
from rollwright.algorithms.ratios.token_ratios import bypass_ratio, no_ratio, token_ratio
from rollwright.algorithms.surrogates.clipping import Clip
from rollwright.algorithms.surrogates.likelihood import policy_gradient

__all__ = ["bypassing_proximal", "clipped", "corrected", "gated", "score_function", "with_regularizer"]

_PROXIMAL = frozenset({"proximal"})


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


def gated(
    name: str,
    *,
    credit: CreditFn,
    surrogate: SurrogateFn,
    weights: WeightFn,
    ratio: RatioFn = token_ratio,
    needs: frozenset[str] = _PROXIMAL,
) -> Objective:
    """Any credit with any surrogate of a ratio.

    Args:
        name: of the composition, for manifests and errors.
        credit: the estimator.
        surrogate: what is maximised.
        weights: the denominator.
        ratio: what the surrogate takes.
        needs: the streams that credit, ratio and surrogate read.

    Returns:
        An objective without correction.
    """
    return replace(
        clipped(name, credit=credit, clip=Clip(), weights=weights), surrogate=surrogate, ratio=ratio, needs=needs
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


def corrected(objective: Objective, *, correction: CorrectionFn, keep: KeepFn = keep_all) -> Objective:
    """The same objective with a correction by proximal over behavior.

    Args:
        objective: one without a correction.
        correction: the detached weight of each token.
        keep: which tokens stay.

    Returns:
        The objective; it needs proximal and behavior scores.
    """
    if objective.correction is not no_correction or objective.keep is not keep_all:
        raise ObjectiveError(f"{objective.name} has a correction already; a token is corrected once.")
    needs = objective.needs | {"proximal", "behavior"}
    return replace(objective, correction=correction, keep=keep, needs=needs)


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
