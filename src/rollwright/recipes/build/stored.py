"""Learning again from a stored run: its batches by step, as far as it goes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rollwright.evidence import StoredRun
from rollwright.recipes.config.learning import SupervisedStageConfig
from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.recipes.errors import RecipeError
from rollwright.record import Group
from rollwright.runtime.observers import Observer

__all__ = ["StoredBatches", "stored_batches"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatches:
    """The batches of a stored run, learned from instead of sampling."""

    read: Callable[[int], Sequence[Group]]
    """The groups that a step of it consumed."""
    steps: int
    """How many it holds; the run ends there, and its schedules are those of the whole recipe."""


def stored_batches(recipe: RecipeConfig, source: StoredRun, observer: Observer) -> StoredBatches:
    """All that a stored run holds for a recipe.

    Args:
        recipe: whose steps are wanted.
        source: the stored run.
        observer: hears where it holds fewer.

    Raises:
        RecipeError: when it holds no step.
    """
    held = next((step for step in reversed(source.steps) if _groups(source, step)), 0)
    if held == 0:
        raise RecipeError(f"{source.folder.path} holds no batch of a finished step; there is nothing to learn from.")
    wanted = sum(s.steps if isinstance(s, SupervisedStageConfig) else recipe.run.steps for s in recipe.stages)
    if held < wanted:
        observer.warned(f"{source.folder.path} holds {held} of the recipe's {wanted} steps; the run ends with them")
    return StoredBatches(read=partial(_groups, source), steps=min(held, wanted))


def _groups(source: StoredRun, step: int) -> Sequence[Group]:
    """The groups that a step of the source consumed, or only sampled where it stopped there; demonstrations first."""
    return [*source.groups("demonstration", step), *(source.groups("train", step) or source.sampled(step))]
