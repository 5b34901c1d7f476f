"""Games on a grid: an icy lake with holes (no slipping: every step is certain) and boxes that are pushed onto marks."""

from collections.abc import Sequence
from typing import cast

from rollwright.environments.text_games import End
from rollwright.tasks import (
    MOVES,
    Payload,
    State,
    cell_text,
    goal_of,
    layout_of,
    read_cell,
    start_of,
    unmet_conditions,
)

__all__ = ["GridGame"]


class GridGame:
    """Rules of both; see `TextGame`. A state is where agent and boxes are."""

    name = "grid"
    revision = "1"
    idle_command = None

    def begin(self, payload: Payload) -> State:
        """As the task says."""
        return start_of(payload)

    def view(self, payload: Payload, state: State) -> str:
        """The whole grid: A agent, B box, G goal or mark, O hole, # wall."""
        layout, goal = layout_of(payload), goal_of(payload)
        size = _size(payload)
        rows = [["."] * size for _ in range(size)]
        drawn = [("O" if layout["kind"] == "lake" else "#", cell) for cell in _blocked(payload)]
        drawn += [("G", str(cell)) for cell in goal.values()]
        drawn += [("B", str(cell)) for name, cell in sorted(state.items()) if name != "agent"]
        drawn.append(("A", str(state["agent"])))
        for sign, text in drawn:
            row, column = read_cell(text)
            rows[row][column] = sign
        return "\n".join("".join(row) for row in rows)

    def commands(self, payload: Payload, state: State) -> tuple[str, ...]:
        """The directions in which the agent can move."""
        return tuple(move for move in MOVES if self._after(payload, state, move) is not None)

    def act(self, payload: Payload, state: State, command: str) -> State:
        """The state after a step."""
        after = self._after(payload, state, command)
        if after is None:
            raise ValueError(f"{command!r} cannot be done here")
        return after

    def reward(self, payload: Payload, state: State, command: str, after: State) -> float:
        """The final state alone counts."""
        return 0.0

    def end(self, payload: Payload, state: State) -> End | None:
        """Won at the goal, lost in a hole."""
        if not unmet_conditions(goal_of(payload), state):
            return "environment_success"
        is_lost = layout_of(payload)["kind"] == "lake" and state["agent"] in _blocked(payload)
        return "environment_failure" if is_lost else None

    def _after(self, payload: Payload, state: State, move: str) -> State | None:
        """The state after a move; None where a wall or a box that cannot move is in the way."""
        down, right = MOVES[move]
        row, column = read_cell(state["agent"])
        ahead = (row + down, column + right)
        walls = set(_blocked(payload)) if layout_of(payload)["kind"] == "boxes" else set[str]()
        if not self._is_free(payload, walls, ahead):
            return None
        boxes = {str(cell): name for name, cell in state.items() if name != "agent"}
        after = {**state, "agent": cell_text(ahead)}
        if pushed := boxes.get(cell_text(ahead)):
            beyond = (ahead[0] + down, ahead[1] + right)
            if not self._is_free(payload, walls, beyond) or cell_text(beyond) in boxes:
                return None
            after[pushed] = cell_text(beyond)
        return after

    def _is_free(self, payload: Payload, walls: set[str], cell: tuple[int, int]) -> bool:
        size = _size(payload)
        return 0 <= cell[0] < size and 0 <= cell[1] < size and cell_text(cell) not in walls


def _size(payload: Payload) -> int:
    return cast("int", layout_of(payload)["size"])


def _blocked(payload: Payload) -> Sequence[str]:
    return cast("Sequence[str]", layout_of(payload)["blocked"])
