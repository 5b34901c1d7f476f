"""From the engine's configuration to an engine; what needs torch is imported inside."""

from typing import TYPE_CHECKING

from rollwright.recipes.config.recipe import RecipeConfig
from rollwright.record import Engine, WeightReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

__all__ = ["build_engine"]


def build_engine(recipe: RecipeConfig, model: "PreTrainedModel", read: WeightReader, *, version: int) -> Engine:
    """An engine of the model's architecture, on a thread of its own until it is closed.

    Args:
        recipe: its engine section.
        model: whose weights it serves first; it may be trained on meanwhile.
        read: gives the tensors of a publication.
        version: the step after which the model's weights stood.
    """
    from rollwright.engines.embedded.opening import EmbeddedSettings, open_engine

    engine = recipe.engine
    settings = EmbeddedSettings(
        version=version,
        num_slots=engine.num_slots,
        max_context_tokens=engine.max_context_tokens,
        dtype=engine.dtype,
        device=engine.device,
        mode=engine.mode,
    )
    return open_engine(model, settings, read)
