"""Rule induction: trains with cars, some of which go east, and a hidden rule that says which.

    a rule        red and short or loaded          a train goes east where one of its cars is red and short, or one is
                                                   loaded; `train=t2` names a train

Rules are read and applied here, exactly. `renamed` gives the same examples with other names of the trains: the meaning
is the same, so a rule about cars says the same of them, and a list of names does not.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["Train", "goes_east", "induction_source", "read_rule", "renamed", "trains_of"]

_PROPERTIES = (("red", "blue", "green"), ("short", "long"), ("loaded", "empty"))
_WORDS = frozenset(word for values in _PROPERTIES for word in values)
_MOST_LITERALS = 40
_BUILDER = 1
Rule = tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Train:
    """An example."""

    name: str
    cars: tuple[frozenset[str], ...]
    is_east: bool


def read_rule(text: str) -> Rule:
    """Conjunctions joined by `or`, literals joined by `and`.

    Raises:
        TaskError: for a word that is neither a property nor `train=NAME`, and a rule that is too long or empty.
    """
    rule = tuple(frozenset(part.strip() for part in one.split(" and ")) for one in text.strip().split(" or "))
    literals = [literal for one in rule for literal in one]
    if len(literals) > _MOST_LITERALS:
        raise TaskError(f"{len(literals)} conditions; at most {_MOST_LITERALS} are read")
    for literal in literals:
        if literal not in _WORDS and not literal.startswith("train="):
            raise TaskError(f"{literal[:40]!r} is no property; there are {', '.join(sorted(_WORDS))}, and train=NAME")
    return rule


def goes_east(rule: Rule, train: Train) -> bool:
    """Whether the rule says that the train goes east."""
    return any(any(one <= car | {f"train={train.name}"} for car in train.cars) for one in rule)


def renamed(trains: Sequence[Train], seed: int) -> tuple[Train, ...]:
    """The same trains in another order, each under a name that none of them had."""
    chance = Random(seed_of(seed, "renamed", [train.name for train in trains]))
    numbers = chance.sample(range(100, 1000), len(trains))
    found = [
        Train(name=f"t{number}", cars=train.cars, is_east=train.is_east)
        for train, number in zip(trains, numbers, strict=True)
    ]
    chance.shuffle(found)
    return tuple(found)


def trains_of(info: Mapping[str, Json]) -> tuple[Train, ...]:
    """The examples of a task.

    Raises:
        TaskError: where it has none.
    """
    rows = info.get("trains")
    if not isinstance(rows, Sequence) or isinstance(rows, str) or not rows:
        raise TaskError("the task has no `info.trains`")
    return tuple(_train(row) for row in rows)


def induction_source(sizes: SplitSizes, *, trains: int = 6, seed: int = 0) -> TaskSource:
    """Tasks with a rule of two properties each.

    Args:
        sizes: distinct tasks wanted.
        trains: examples of each task, 4 to 12; both directions occur.
        seed: of the drawing.
    """
    if not 4 <= trains <= 12:
        raise TaskError(f"{trains} trains; allowed are 4 to 12")
    revision = f"induction:{digest([_BUILDER, trains, seed])[:16]}"
    return fill_splits(_tasks(trains, seed), sizes, name="rule_induction", revision=revision)


def _tasks(count: int, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "induction", count))
    while True:
        rule = " and ".join(chance.choice(values) for values in chance.sample(_PROPERTIES, 2))
        trains = [_drawn(f"t{number}", rule, chance) for number in range(1, count + 1)]
        if 1 < sum(train.is_east for train in trains) < count - 1:
            yield _payload(trains, rule)


def _drawn(name: str, rule: str, chance: Random) -> Train:
    cars = tuple(frozenset(chance.choice(values) for values in _PROPERTIES) for _ in range(chance.randint(1, 3)))
    return Train(name=name, cars=cars, is_east=goes_east(read_rule(rule), Train(name=name, cars=cars, is_east=False)))


def _payload(trains: Sequence[Train], rule: str) -> Payload:
    lines = [
        f"{train.name} goes {'east' if train.is_east else 'west'}: " + "; ".join(_car_text(car) for car in train.cars)
        for train in trains
    ]
    asked = "Which trains go east? End with a line 'answer: ' and a rule, such as 'red and short or loaded'."
    rows: list[Json] = [
        {"name": train.name, "cars": [sorted(car) for car in train.cars], "is_east": train.is_east} for train in trains
    ]
    return Payload(
        messages=(Message(role="user", text="\n".join([*lines, asked])),), answer=rule, info={"trains": rows}
    )


def _car_text(car: frozenset[str]) -> str:
    return " ".join(word for values in _PROPERTIES for word in values if word in car)


def _train(row: Json) -> Train:
    if isinstance(row, Mapping):
        name, cars, is_east = row.get("name"), row.get("cars"), row.get("is_east")
        if isinstance(name, str) and isinstance(cars, Sequence) and isinstance(is_east, bool):
            sets = tuple(frozenset(str(word) for word in car) for car in cars if isinstance(car, Sequence))
            return Train(name=name, cars=sets, is_east=is_east)
    raise TaskError("a train of the task needs `name`, `cars` and `is_east`")
