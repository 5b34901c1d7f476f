"""From the objective's configuration to a composition."""

from dataclasses import dataclass, replace
from functools import partial
from typing import assert_never

from rollwright.algorithms import check_objective
from rollwright.algorithms.corrections.self_normalized import self_normalizing
from rollwright.algorithms.credit.truncation import (
    exclude_truncated,
    mask_truncated,
    penalize_overlong,
    punish_truncated,
)
from rollwright.algorithms.denominators.equal_siblings import EqualSiblings
from rollwright.algorithms.denominators.plain import (
    EpisodeMean,
    FixedLength,
    PromptMean,
    ResponseMean,
    SequenceSum,
    TokenMean,
)
from rollwright.algorithms.denominators.source_balance import SourceBalance
from rollwright.algorithms.disclosure import UndisclosedError
from rollwright.algorithms.objective import CreditFn, Objective, WeightFn
from rollwright.algorithms.trial import streams_before_credit
from rollwright.batches import source_number
from rollwright.recipes.build.objective.correction import build_correction, build_ratio
from rollwright.recipes.build.objective.credit import build_credit, streams_of_credit
from rollwright.recipes.build.objective.regularizers import build_kl_coefficient, build_regularizers
from rollwright.recipes.build.objective.surrogate import build_surrogate
from rollwright.recipes.config.objective import ObjectiveConfig
from rollwright.recipes.config.objective.credit import UNFED
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.config.sampling import RolloutConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.stand_ins import made_with_stand_ins

__all__ = ["Sizes", "build_objective", "compose", "refuse_untrainable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a composition takes from the rollout where its own configuration leaves it out."""

    max_tokens: int
    """L of `fixed_length`."""
    num_rows: int
    """Rows of an update, which an adaptive KL coefficient counts."""


def build_objective(config: ObjectiveConfig, rollout: RolloutConfig) -> Objective:
    """The objective of an RL stage, its credit under the truncation rule; refused where it means nothing.

    Args:
        config: the composition.
        rollout: truncation, group size, batch size and the longest response.
    """
    objective = compose(config, Sizes(max_tokens=rollout.max_episode_tokens, num_rows=rollout.batch_size))
    objective = replace(objective, credit=_under_truncation(objective.credit, rollout))
    check_objective(objective, group_size=rollout.group_size)
    return objective


def compose(config: ObjectiveConfig, sizes: Sizes) -> Objective:
    """The composition alone, without the rollout's truncation rule."""
    weights = build_weights(config, sizes)
    loss = build_surrogate(config.surrogate)
    ratio = build_ratio(config.ratio)
    correction = build_correction(config.correction)
    kl_coefficient = build_kl_coefficient(config, num_rows=sizes.num_rows)
    terms = build_regularizers(config, weights, kl_coefficient)
    credit = build_credit(config, kl_coefficient)
    objective = Objective(
        name=config.kind,
        credit=credit,
        ratio=ratio.make,
        keep=correction.keep,
        correction=correction.correction,
        surrogate=loss.surrogate,
        weights=weights,
        regularizers=(*loss.regularizers, *terms.regularizers),
        needs=streams_of_credit(config.credit) | ratio.needs | correction.needs | loss.needs | terms.needs,
        component="nll" if config.surrogate.kind == "log_likelihood" else "policy_gradient",
        stages=loss.stages,
        acts_without_advantage=loss.acts_without_advantage,
        before_credit=streams_before_credit(credit),
    )
    return objective if config.self_normalize == "none" else self_normalizing(objective, over=config.self_normalize)


def refuse_untrainable(recipe: RecipeConfig) -> None:
    """Refuse an objective that cannot be built or fed, before a run has a folder.

    Raises:
        RecipeError: where the composition reads what no stage of a run makes yet, or lacks a constant that its source
            does not give.
        ObjectiveError: where it means nothing.
    """
    if not any(stage.kind == "rl" for stage in recipe.stages):
        return
    config = recipe.objective
    if (missing := UNFED.get(config.credit.kind)) is not None:
        raise RecipeError(
            f"objective {config.kind!r} with credit {config.credit.kind!r} reads {missing}, which no stage of a run "
            "makes yet; choose another. `rollwright recipe explain` shows what it computes."
        )
    try:
        build_objective(config, recipe.rollout)
    except UndisclosedError as error:
        _, keys = made_with_stand_ins(config, partial(build_objective, rollout=recipe.rollout))
        written = " and ".join(f"objective.{key}" for key in keys)
        raise RecipeError(f"{error} It is written as {written}.") from error


def build_weights(config: ObjectiveConfig, sizes: Sizes) -> WeightFn:
    """The denominator, balanced by source where the configuration asks for it."""
    base = _denominator(config, sizes)
    if not config.source_targets:
        return base
    targets = {source_number(name): share for name, share in config.source_targets.items()}
    return SourceBalance(base=base, targets=targets)


def _denominator(config: ObjectiveConfig, sizes: Sizes) -> WeightFn:
    counting = config.counting
    match config.denominator:
        case "token_mean":
            return TokenMean(counting=counting)
        case "response_mean":
            return ResponseMean(counting=counting)
        case "sequence_sum":
            return SequenceSum(counting=counting)
        case "prompt_mean":
            return PromptMean(counting=counting)
        case "prompt_mean_of_tokens":
            return PromptMean(within="token", counting=counting)
        case "episode_mean":
            return EpisodeMean(counting=counting)
        case "equal_siblings":
            return EqualSiblings(counting=counting)
        case "fixed_length":
            return FixedLength(length=config.fixed_length_tokens or sizes.max_tokens, counting=counting)
        case _:
            assert_never(config.denominator)


def _under_truncation(credit: CreditFn, rollout: RolloutConfig) -> CreditFn:
    match rollout.truncation:
        case "negative" | "resume":
            # What is still cut after its last resumption is `negative`; before that the dispatcher parks it.
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
        case _:
            assert_never(rollout.truncation)
