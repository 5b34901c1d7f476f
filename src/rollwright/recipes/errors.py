"""What is wrong with a recipe, in one sentence with the key and the way out."""

__all__ = ["RecipeError"]


class RecipeError(ValueError):
    """A recipe that cannot be run as written."""
