"""Errors of the boundary between text and tokens."""

__all__ = ["RenderingError"]


class RenderingError(ValueError):
    """A tokenizer, a template or a message that cannot be rendered; the sentence says what to do."""
