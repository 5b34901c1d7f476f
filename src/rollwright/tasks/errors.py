"""What is wrong with a task, a file of tasks, a mixture or an expression."""

__all__ = ["ExpressionError", "TaskError"]


class TaskError(ValueError):
    """Tasks that cannot be used as given; the sentence says where and how to fix it."""


class ExpressionError(ValueError):
    """An expression without an exact value within the bounds; the sentence is fit to be read by a policy."""
