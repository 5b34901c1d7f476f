"""Constants that a publication does not give: they have no default here, and leaving one out says who kept it."""

from typing import TypeVar

from rollwright.algorithms.errors import ObjectiveError

__all__ = ["StandIn", "StandInWord", "UndisclosedError", "chosen"]

Value = TypeVar("Value")


class UndisclosedError(ObjectiveError):
    """A constant was left out that its source does not disclose."""


class StandIn(float):
    """A number in the place of an undisclosed one, so that an objective can be looked at: it is shown as `?`."""

    __slots__ = ()

    def __radd__(self, other: float) -> "StandIn":
        """A sum with it is as unknown."""
        return StandIn(other + float(self))

    def __rsub__(self, other: float) -> "StandIn":
        """A difference from it is as unknown."""
        return StandIn(other - float(self))


class StandInWord(str):
    """A choice in the place of an undisclosed one; see `StandIn`."""

    __slots__ = ()


def chosen(name: str, value: Value | None, *, undisclosed_by: str) -> Value:
    """The value that the caller chose for a constant that its source does not disclose.

    Args:
        name: of the argument.
        value: what was given; None where it was left out.
        undisclosed_by: the publication or project that names the constant and not its value.

    Returns:
        The value; leaving it out raises `UndisclosedError`.
    """
    if value is None:
        raise UndisclosedError(
            f"{name} has no default: {undisclosed_by} did not disclose it. Choose a value, and say that it is yours."
        )
    return value
