"""What ends a climb before its gates can be judged."""

__all__ = ["LadderError"]


class LadderError(RuntimeError):
    """An arm did not come to its end, or its run folder cannot be read as one."""
