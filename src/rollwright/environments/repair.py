"""Repair of an infeasible model: after every action the solver runs again and says which constraints conflict now."""

from collections.abc import Mapping, Sequence
from typing import cast

from rollwright.environments.text_games import End
from rollwright.tasks import (
    Difference,
    Json,
    Payload,
    State,
    conflict_of,
    goal_of,
    layout_of,
    unmet_conditions,
)

__all__ = ["RepairGame"]

_KEPT, _DROPPED = "kept", "dropped"


class RepairGame:
    """Rules of the repair; see `TextGame`. A state is which constraints are kept, and their conflict."""

    name = "repair"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """Everything kept, and solved once."""
        return self._solved(payload, {one.name: _KEPT for one in _system(payload)})

    def view(self, payload: Payload, state: State) -> str:
        """What the solver says."""
        return f"conflict: {state['conflict'] or 'none'}"

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """Drop while drops are left; restore what was dropped."""
        names = [one.name for one in _system(payload)]
        dropped = [name for name in names if state[name] == _DROPPED]
        left = cast("int", layout_of(payload)["drops"]) - len(dropped)
        found = [f"drop {name}" for name in names if state[name] == _KEPT] if left > 0 else []
        return (*found, *(f"restore {name}" for name in dropped))

    def act(self, payload: Payload, state: State, command: str) -> State:
        """Drop or restore, and solve again."""
        verb, _, name = command.partition(" ")
        kept = {one.name: state[one.name] for one in _system(payload)}
        return self._solved(payload, {**kept, name: _DROPPED if verb == "drop" else _KEPT})

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """How many fewer constraints conflict than before: a function of the two states alone."""
        return float(len(str(state["conflict"]).split()) - len(str(after["conflict"]).split()))

    def end(self, payload: Payload, state: State) -> End | None:
        """Over when nothing conflicts."""
        return None if unmet_conditions(goal_of(payload), state) else "environment_success"

    def _solved(self, payload: Payload, kept: Mapping[str, Json]) -> State:
        conflict = conflict_of([one for one in _system(payload) if kept[one.name] == _KEPT])
        return {**kept, "conflict": " ".join(conflict)}


def _system(payload: Payload) -> Sequence[Difference]:
    rows = cast("Sequence[Mapping[str, Json]]", layout_of(payload)["constraints"])
    return [
        Difference(
            name=str(row["name"]), left=str(row["left"]), right=str(row["right"]), bound=cast("int", row["bound"])
        )
        for row in rows
    ]
