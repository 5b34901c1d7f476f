"""What cannot become a batch."""

__all__ = ["BatchError"]


class BatchError(ValueError):
    """Trajectories or settings that no batch can be made of; the sentence says what to change."""
