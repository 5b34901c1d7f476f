"""What a page or a report cannot show, in sentences."""

__all__ = ["ViewerError"]


class ViewerError(ValueError):
    """Runs cannot be shown as asked."""
