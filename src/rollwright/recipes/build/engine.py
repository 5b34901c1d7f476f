"""From the engine's configuration to an engine; what needs torch is imported inside."""

from typing import TYPE_CHECKING

from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Engine, WeightReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["build_engine"]


def build_engine(recipe: RecipeConfig, model: "PreTrainedModel", read: WeightReader, *, version: int) -> Engine:
    """An engine of the model's architecture.

    Args:
        recipe: its engine section.
        model: whose weights it serves first.
        read: gives the tensors of a publication.
        version: the step after which the model's weights stood.
    """
    raise NotImplementedError
