"""Errors of the mathematics: a composition or an input that means nothing."""

__all__ = ["ObjectiveError"]


class ObjectiveError(ValueError):
    """A composition, an option or an input that the mathematics refuses; the message says what to change."""
