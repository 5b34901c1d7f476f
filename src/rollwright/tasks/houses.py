"""Household tasks: rooms, containers that open, and an object that is to be put somewhere.

    house 48          the number names the house: equal houses have equal numbers
    put cup in box    the goal

`info.layout` holds rooms and doors, `info.start` the state at the beginning, `info.goal` the state that is wanted. The
rooms form a tree and every container can be opened, so each task can be solved from each of its states.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.goals import State
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["AGENT", "HAND", "OPEN", "SHUT", "HouseSize", "house_source"]

AGENT, HAND = "agent", "hand"
OPEN, SHUT = "open", "shut"
SOURCE = "text_world"
ROOMS = ("kitchen", "hall", "den", "attic", "bath")
CONTAINERS = ("box", "chest", "fridge", "drawer")
OBJECTS = ("cup", "key", "apple", "book", "soap", "lamp")
_BUILDER = 1
"""Of the rules below; part of the revision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HouseSize:
    """How much stands in a house."""

    rooms: int = 3
    containers: int = 2
    objects: int = 2

    def __post_init__(self) -> None:
        """Refuse a house without a task in it, and one for which there are no names."""
        most = {"rooms": len(ROOMS), "containers": len(CONTAINERS), "objects": len(OBJECTS)}
        given = {"rooms": self.rooms, "containers": self.containers, "objects": self.objects}
        if wrong := [name for name, count in given.items() if not 1 <= count <= most[name]]:
            raise TaskError(f"a house with {given[wrong[0]]} {wrong[0]}; allowed are 1 to {most[wrong[0]]}")


def house_source(sizes: SplitSizes, size: HouseSize, *, seed: int) -> TaskSource:
    """Houses with a goal each, split by house and goal.

    Args:
        sizes: distinct tasks wanted.
        size: of each house.
        seed: of the drawing.
    """
    revision = f"houses:{digest([_BUILDER, size.rooms, size.containers, size.objects, seed])[:16]}"
    return fill_splits(_houses(size, seed), sizes, name=SOURCE, revision=revision)


def _houses(size: HouseSize, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, SOURCE, size.rooms, size.containers, size.objects))
    while True:
        yield _house(size, chance)


def _house(size: HouseSize, chance: Random) -> Payload:
    rooms = chance.sample(ROOMS, size.rooms)
    containers = {name: chance.choice(rooms) for name in chance.sample(CONTAINERS, size.containers)}
    objects = chance.sample(OBJECTS, size.objects)
    wanted, place = objects[0], next(iter(containers))
    start: dict[str, Json] = {AGENT: chance.choice(rooms)}
    start |= {name: chance.choice((OPEN, SHUT, SHUT)) for name in containers}
    start |= {name: chance.choice([*rooms, *containers]) for name in objects}
    start[wanted] = chance.choice([where for where in (*rooms, *containers) if where != place])
    layout: dict[str, Json] = {"doors": _doors(rooms, chance), "containers": containers, "objects": sorted(objects)}
    return _payload(layout, start, {wanted: place})


def _payload(layout: State, start: State, goal: Mapping[str, str]) -> Payload:
    ((wanted, place),) = goal.items()
    asked = f"put {wanted} in {place}"
    number = int(digest([layout, start])[:8], 16) % 10000
    return Payload(
        messages=(Message(role="user", text=f"house {number}\n{asked}"),),
        answer=asked,
        info={"layout": layout, "start": start, "goal": goal},
    )


def _doors(rooms: Sequence[str], chance: Random) -> dict[str, list[str]]:
    """A tree: each room but the first opens to one that came before it."""
    doors: dict[str, list[str]] = {room: [] for room in rooms}
    for number, room in enumerate(rooms[1:], start=1):
        other = rooms[chance.randrange(number)]
        doors[room].append(other)
        doors[other].append(room)
    return {room: sorted(others) for room, others in sorted(doors.items())}
