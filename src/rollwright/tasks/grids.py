"""Grid tasks that are solvable by construction: an icy lake with holes, and boxes that are pushed onto marks.

    walls #   holes O   start and box marks stand in `info.start` and `info.goal`

A lake's way is carved before its holes are drawn; a puzzle of boxes is made backwards, by pulling boxes off the marks.
`info.start` is the first state: `agent` and `box0`, `box1`, …, each `row,column`; `info.goal` what is wanted of it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["MOVES", "GridKind", "cell_text", "grid_source", "read_cell"]

GridKind = Literal["lake", "boxes"]
Cell = tuple[int, int]
MOVES: Mapping[str, Cell] = MappingProxyType({"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)})
_BUILDER = 1
_PULLS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    size: int
    blocked: frozenset[Cell]
    """Holes of a lake, inner walls of a puzzle."""
    start: Mapping[str, Json]
    goal: Mapping[str, Json]


def grid_source(kind: GridKind, sizes: SplitSizes, *, size: int, boxes: int = 1, seed: int = 0) -> TaskSource:
    """Grids of one kind, split by grid.

    Args:
        kind: `lake`: reach the far corner and step in no hole. `boxes`: push every box onto its mark.
        sizes: distinct tasks wanted.
        size: cells in a row, without the wall around.
        boxes: of a puzzle, 1 or 2.
        seed: of the drawing.
    """
    if kind not in ("lake", "boxes") or not 3 <= size <= 9 or boxes not in (1, 2):
        raise TaskError(
            f"kind {kind!r}, size {size}, boxes {boxes}; kind is lake or boxes, size is 3 to 9, boxes are 1 or 2"
        )
    revision = f"grid:{digest([_BUILDER, kind, size, boxes, seed])[:16]}"
    return fill_splits(_grids(kind, size, boxes, seed), sizes, name=f"grid_{kind}", revision=revision)


def cell_text(cell: Cell) -> str:
    """A cell as a state holds it."""
    return f"{cell[0]},{cell[1]}"


def read_cell(text: Json) -> Cell:
    """The cell of a state."""
    row, _, column = str(text).partition(",")
    return int(row), int(column)


def _grids(kind: GridKind, size: int, boxes: int, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "grid", kind, size, boxes))
    while True:
        drawn = _lake(size, chance) if kind == "lake" else _puzzle(size, boxes, chance)
        if drawn is not None:
            yield _payload(kind, drawn)


def _payload(kind: GridKind, drawn: _Drawn) -> Payload:
    layout: dict[str, Json] = {
        "kind": kind,
        "size": drawn.size,
        "blocked": [cell_text(cell) for cell in sorted(drawn.blocked)],
    }
    number = int(digest([layout, drawn.start, drawn.goal])[:8], 16) % 1_000_000
    asked = "reach G, not O" if kind == "lake" else "push every B onto its mark"
    return Payload(
        messages=(Message(role="user", text=f"grid {number}\n{asked}"),),
        answer=asked,
        info={"layout": layout, "start": drawn.start, "goal": drawn.goal},
    )


def _lake(size: int, chance: Random) -> _Drawn:
    steps = ["down"] * (size - 1) + ["right"] * (size - 1)
    chance.shuffle(steps)
    way = {(0, 0)}
    at = (0, 0)
    for step in steps:
        at = (at[0] + MOVES[step][0], at[1] + MOVES[step][1])
        way.add(at)
    free = [(row, column) for row in range(size) for column in range(size) if (row, column) not in way]
    holes = frozenset(cell for cell in free if chance.random() < 0.4)
    goal = cell_text((size - 1, size - 1))
    return _Drawn(size=size, blocked=holes, start={"agent": cell_text((0, 0))}, goal={"agent": goal})


def _puzzle(size: int, boxes: int, chance: Random) -> _Drawn | None:
    """Pull boxes away from their marks; None where one has not moved."""
    cells = [(row, column) for row in range(size) for column in range(size)]
    drawn = chance.sample(cells, boxes + 1 + size // 2)
    marks, agent, walls = drawn[:boxes], drawn[boxes], frozenset(drawn[boxes + 1 :])
    places = list(marks)
    for _ in range(_PULLS):
        step = chance.choice(list(MOVES.values()))
        ahead, behind = _moved(agent, step), _moved(agent, (-step[0], -step[1]))
        if ahead not in cells or ahead in walls or ahead in places:
            continue
        if behind in places and chance.random() < 0.8:
            places[places.index(behind)] = agent
        agent = ahead
    if any(place == mark for place, mark in zip(places, marks, strict=True)):
        return None
    start: dict[str, Json] = {"agent": cell_text(agent)}
    start |= {f"box{number}": cell_text(place) for number, place in enumerate(places)}
    goal = {f"box{number}": cell_text(mark) for number, mark in enumerate(marks)}
    return _Drawn(size=size, blocked=walls, start=start, goal=goal)


def _moved(cell: Cell, step: Cell) -> Cell:
    return cell[0] + step[0], cell[1] + step[1]
