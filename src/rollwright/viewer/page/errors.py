"""What a visitor asked for and cannot have."""

__all__ = ["NotFoundError", "PageError"]


class PageError(ValueError):
    """A page cannot be served as asked."""


class NotFoundError(PageError):
    """There is no such run, episode, step or file."""
