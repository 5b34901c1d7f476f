"""Constants that a publication does not give: they have no default here, and leaving one out says who kept it."""

from typing import TypeVar

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["chosen"]

Value = TypeVar("Value")


def chosen(name: str, value: Value | None, *, undisclosed_by: str) -> Value:
    """The value that the caller chose for a constant that its source does not disclose.

    Args:
        name: of the argument.
        value: what was given; None where it was left out.
        undisclosed_by: the publication or project that names the constant and not its value.

    Returns:
        The value; leaving it out raises `ObjectiveError`.
    """
    if value is None:
        raise ObjectiveError(
            f"{name} has no default: {undisclosed_by} did not disclose it. Choose a value, and say that it is yours."
        )
    return value
