"""What an environment shows in a warm start: the turns of an assistant, written before any token is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rollwright.environments.errors import EnvironmentSetupError
from rollwright.record import Environment, Task, ToolRequest

__all__ = ["DemonstratedTurn", "DemonstrateFn", "DemonstratingEnvironment", "demonstrated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstratedTurn:
    """One turn: what is said, then what is called; the renderer writes both in the model's own grammar."""

    text: str
    calls: tuple[ToolRequest, ...] = ()
    """Empty in the last turn. The ids are the driver's to give; here they only number the calls."""


DemonstrateFn = Callable[[Task, int], tuple[DemonstratedTurn, ...]]
"""(task, seed) to turns: equal arguments give equal turns."""


def demonstrated(name: str, demonstrate: DemonstrateFn | None, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
    """The turns of one demonstration.

    Args:
        name: of the environment.
        demonstrate: what it was given to demonstrate with.
        task: to be shown.
        seed: of what is drawn.

    Raises:
        EnvironmentSetupError: where it was given nothing.
    """
    if demonstrate is None:
        raise EnvironmentSetupError(
            f"environment {name} has no demonstrations; leave the supervised stage out, or give it some"
        )
    return demonstrate(task, seed)


@runtime_checkable
class DemonstratingEnvironment(Environment, Protocol):
    """An environment that can show how an episode goes."""

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration; the calls in them are run for real when they are played."""
        ...
