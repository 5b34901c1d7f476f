"""Sub-goals that are reached or not by the state at the end, in whatever order they were worked on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from rollwright.record import NamedValue, Submission, digest
from rollwright.tasks import Cell, Json
from rollwright.verifiers.errors import GoldError
from rollwright.verifiers.final_state import LeftState, left_state
from rollwright.verifiers.grading import FunctionVerifier, Grade, gold_payload

__all__ = ["StateGoal", "read_goals", "subgoal_verifier"]

NO_STATE = "no_final_state"
_REVISION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StateGoal:
    """So many rows of a table have these values."""

    name: str
    table: str
    cells: Mapping[str, Cell]
    """Columns that decide; may hold `id`."""
    count: int = 1

    def is_reached(self, state: LeftState) -> bool:
        """Whether exactly so many rows are as wanted."""
        table = state.tables.get(self.table)
        if table is None:
            return False
        rows = (table.row(key) for key in table.rows)
        return sum(_holds(row, self.cells) for row in rows) == self.count


def subgoal_verifier(*, name: str = "subgoals") -> FunctionVerifier:
    """The share of the task's sub-goals (`info.goals`) that the final state has reached; each is a component.

    A goal is {name, table, cells, count}: exactly `count` rows (1 where it is left out) of the table have these cells.
    No path is looked at, so any order of work gives the same value.
    """

    def grade(submission: Submission) -> Grade:
        goals = read_goals(gold_payload(submission).info.get("goals"))
        state = left_state(submission)
        if state is None:
            return Grade(value=0.0, finding=NO_STATE, evidence="there is no final state that can be read")
        reached = {goal.name: goal.is_reached(state) for goal in goals}
        missing = [goal for goal, is_reached in reached.items() if not is_reached]
        return Grade(
            value=sum(reached.values()) / len(reached),
            evidence=f"not reached: {', '.join(missing)}" if missing else "all reached",
            components=tuple(NamedValue(name=goal, value=float(is_reached)) for goal, is_reached in reached.items()),
        )

    return FunctionVerifier(name=name, revision=digest([_REVISION, name])[:16], grade=grade)


def read_goals(value: Json) -> tuple[StateGoal, ...]:
    """Read goals from JSON.

    Raises:
        GoldError: where it is no list of goals with different names.
    """
    entries = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    goals: list[StateGoal] = []
    for entry in entries:
        if not isinstance(entry, Mapping) or not {"name", "table", "cells"} <= set(entry):
            raise GoldError("a goal is a map of name, table, cells and perhaps count")
        count, cells = entry.get("count", 1), entry["cells"]
        if not isinstance(cells, Mapping) or not cells or type(count) is not int or count < 0:
            raise GoldError(f"goal {entry['name']!r} needs cells and a count of at least 0")
        held = cast("Mapping[str, Cell]", cells)
        goals.append(StateGoal(name=str(entry["name"]), table=str(entry["table"]), cells=held, count=count))
    if not goals or len({goal.name for goal in goals}) != len(goals):
        raise GoldError("info.goals must be a list of goals with different names")
    return tuple(goals)


def _holds(row: Mapping[str, Cell], cells: Mapping[str, Cell]) -> bool:
    return all(name in row and type(row[name]) is type(value) and row[name] == value for name, value in cells.items())
