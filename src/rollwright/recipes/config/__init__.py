"""Configuration classes, torch-free; what each key means stands under it."""

from rollwright.recipes.config.recipe import RecipeConfig

__all__ = ["RecipeConfig"]
