"""What the standard library has in modules that take longer to import than a sandbox to start."""

from types import TracebackType

__all__ = ["SIGCONT", "SIGKILL", "SIGSTOP", "SIGXCPU", "suppress"]

SIGKILL, SIGCONT, SIGSTOP, SIGXCPU = 9, 18, 19, 24
"""The same on every architecture that a filter is written for."""


class suppress:  # noqa: N801 - named as the one of contextlib
    """Goes on where one of these errors is raised."""

    def __init__(self, *errors: type[BaseException]) -> None:
        self._errors = errors

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> bool:
        """Whether the error is one of these."""
        return kind is not None and issubclass(kind, self._errors)
