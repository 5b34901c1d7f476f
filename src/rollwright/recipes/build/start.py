"""The weights that a run starts from: made from the recipe, a stored run's first, or a checkpoint's."""

from pathlib import Path
from typing import TYPE_CHECKING

from rollwright.evidence import Checkpoint, RunFolder, StoredRun, verify_checkpoint
from rollwright.recipes.build.model import ModelSource, build_model
from rollwright.recipes.build.world import BuiltWorld
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["checkpoint_at", "first_weights", "model_source", "weights_of"]


def model_source(recipe: RecipeConfig, world: BuiltWorld) -> ModelSource:
    """What a recipe makes its model and tokenizer from."""
    return ModelSource(
        config=recipe.model,
        seed=recipe.run.seed,
        environment=world.environment,
        spoken=world.spoken,
        tasks=[task for stratum in world.mixture.strata for task in stratum.train],
    )


def first_weights(
    recipe: RecipeConfig, world: BuiltWorld, tokenizer: Path, source: StoredRun | None
) -> "PreTrainedModel":
    """The weights before the first step: made from the recipe, or those that the source began with."""
    if source is None:
        return build_model(model_source(recipe, world), tokenizer)
    return weights_of(checkpoint_at(source.folder, 0))


def weights_of(checkpoint: Checkpoint) -> "PreTrainedModel":
    """The model of a checkpoint."""
    from rollwright.learner.models import load_causal_lm

    return load_causal_lm(checkpoint.path)


def checkpoint_at(folder: RunFolder, step: int | None) -> Checkpoint:
    """The checkpoint of a step; None is the newest that counts.

    Raises:
        RecipeError: when there is none or its bytes were altered, naming those that there are.
    """
    found = [c for c in folder.checkpoints() if isinstance(c, Checkpoint)]
    if step is None:
        newest = folder.newest_checkpoint().chosen
        if newest is None:
            raise RecipeError(f"{folder.path} has no checkpoint that counts; `rollwright resume` makes the first one.")
        return newest
    for checkpoint in found:
        if checkpoint.step == step:
            fault = verify_checkpoint(checkpoint)
            if fault is not None:
                raise RecipeError(f"checkpoint {fault.name} of {folder.path} does not count: {fault.reason}.")
            return checkpoint
    steps = ", ".join(str(c.step) for c in found) or "none"
    raise RecipeError(f"{folder.path} has no checkpoint of step {step}; it has {steps}.")
