"""What is optimised: compositions of typed parts, and the presets that are named ones."""

from rollwright.recipes.config.objective.composition import ComposedConfig, Composition, DenominatorName
from rollwright.recipes.config.objective.presets import ObjectiveConfig

__all__ = ["ComposedConfig", "Composition", "DenominatorName", "ObjectiveConfig"]
