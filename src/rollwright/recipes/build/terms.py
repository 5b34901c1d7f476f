"""What a stage of a recipe trains, and how it is cut into updates: for the loop, and for who counts its steps again."""

from dataclasses import dataclass

from rollwright.algorithms import Objective, supervised
from rollwright.batches import BatchRules
from rollwright.recipes.build.objective import build_objective
from rollwright.recipes.config.learning import StageConfig, SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig

__all__ = ["StageTerms", "stage_terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTerms:
    """What a stage trains, and how it is cut into updates."""

    name: str
    objective: Objective
    eligible: frozenset[tuple[str, str | None]]
    rules: BatchRules
    num_minibatches: int
    num_epochs: int


def stage_terms(stage: StageConfig, recipe: RecipeConfig) -> StageTerms:
    """The terms of one stage.

    Args:
        stage: one of the recipe's.
        recipe: as resolved.
    """
    if isinstance(stage, SupervisedStageConfig):
        return StageTerms(
            name=stage.name,
            objective=supervised(),
            eligible=frozenset({("demonstration", None)}),
            rules=BatchRules(max_lag=0),
            num_minibatches=1,
            num_epochs=1,
        )
    unit = "segment" if recipe.runtime.over_lag == "mask" else "trajectory"
    return StageTerms(
        name=stage.name,
        objective=build_objective(recipe.objective, recipe.rollout),
        eligible=frozenset({("policy", "policy")}),
        rules=BatchRules(max_lag=recipe.runtime.max_lag, stale_unit=unit),
        num_minibatches=recipe.learner.num_minibatches,
        num_epochs=recipe.learner.num_epochs,
    )
