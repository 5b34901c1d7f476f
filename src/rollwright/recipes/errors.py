"""What is wrong with a recipe, in sentences with the key and the way out."""

from collections.abc import Sequence
from typing import Self

__all__ = ["RecipeError"]


class RecipeError(ValueError):
    """A recipe that cannot be run as written."""

    @classmethod
    def of(cls, sentences: Sequence[str]) -> Self:
        """All that is wrong at once: one sentence, or a list of them."""
        if len(sentences) == 1:
            return cls(sentences[0])
        return cls("\n  ".join((f"{len(sentences)} things are wrong:", *sentences)))
