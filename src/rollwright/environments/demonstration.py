"""What an environment shows in a warm start: the turns of an assistant, written before any token is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rollwright.record import Environment, Task, ToolRequest

__all__ = ["DemonstratedTurn", "DemonstrateFn", "DemonstratingEnvironment"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstratedTurn:
    """One turn: what is said, then what is called; the renderer writes both in the model's own grammar."""

    text: str
    calls: tuple[ToolRequest, ...] = ()
    """Empty in the last turn. The ids are the driver's to give; here they only number the calls."""


DemonstrateFn = Callable[[Task, int], tuple[DemonstratedTurn, ...]]
"""(task, seed) to turns: equal arguments give equal turns."""


@runtime_checkable
class DemonstratingEnvironment(Environment, Protocol):
    """An environment that can show how an episode goes."""

    def demonstrate(self, task: Task, seed: int) -> tuple[DemonstratedTurn, ...]:
        """The turns of one demonstration; the calls in them are run for real when they are played."""
        ...
