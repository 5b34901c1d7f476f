"""Errors of the statistics: counts that no experiment can give."""

__all__ = ["StatisticsError"]


class StatisticsError(ValueError):
    """An input that no sample can have, or a choice that means nothing."""
