"""Errors that cross walls: what the protocols of this room may raise."""

__all__ = ["EngineLostError", "EnvironmentBrokenError", "NotSnapshottableError", "RecordError"]


class RecordError(ValueError):
    """A record that contradicts itself; the sentence says what was given and what is allowed."""


class EngineLostError(Exception):
    """The engine died under this request; the episode is retried."""


class EnvironmentBrokenError(Exception):
    """The environment's own fault: the episode ends as an infrastructure failure and is retried."""


class NotSnapshottableError(Exception):
    """The environment cannot be snapshotted; its episode restarts from its seed."""
