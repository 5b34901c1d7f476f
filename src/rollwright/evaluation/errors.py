"""What cannot be measured or compared."""

__all__ = ["EvaluationError"]


class EvaluationError(ValueError):
    """An evaluation or comparison that cannot be made as asked."""
