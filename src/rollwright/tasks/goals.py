"""Goals as conditions on a final state: what a world must be like in the end, however it came to be so."""

from collections.abc import Mapping
from typing import cast

from rollwright.record import digest
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload

__all__ = ["State", "goal_of", "layout_of", "start_of", "state_key", "unmet_conditions"]

State = Mapping[str, Json]
"""A world between two commands, flat: name to value. The past is no part of it, unless a rule asks for it."""


def goal_of(payload: Payload) -> State:
    """`info.goal`: what must hold in the end, by name.

    Raises:
        TaskError: where the task has none.
    """
    goal = payload.info.get("goal")
    if not isinstance(goal, Mapping) or not goal:
        raise TaskError("the task has no `info.goal`, a map of names to the values that they must have in the end")
    return cast("State", goal)


def layout_of(payload: Payload) -> State:
    """`info.layout`: what of the task's world never changes.

    Raises:
        TaskError: where the task has none.
    """
    layout = payload.info.get("layout")
    if not isinstance(layout, Mapping):
        raise TaskError("the task has no `info.layout`; it was not made for this world")
    return cast("State", layout)


def start_of(payload: Payload) -> State:
    """`info.start`: the state at the beginning.

    Raises:
        TaskError: where the task has none.
    """
    start = payload.info.get("start")
    if not isinstance(start, Mapping):
        raise TaskError("the task has no `info.start`; it was not made for this world")
    return cast("State", start)


def unmet_conditions(goal: State, state: State) -> tuple[str, ...]:
    """What of the goal does not hold, in words; empty where it is reached."""
    return tuple(
        f"{name} is {state.get(name)!r}, not {wanted!r}"
        for name, wanted in sorted(goal.items())
        if name not in state or type(state[name]) is not type(wanted) or state[name] != wanted
    )


def state_key(world: str, layout: State, state: State) -> str:
    """A digest of layout and state: equal exactly where both are, whatever was done before."""
    return digest([world, layout, state])
