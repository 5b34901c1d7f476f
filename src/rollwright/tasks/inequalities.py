"""Systems of difference constraints (x - y <= bound), their exact solver, and tasks that repair infeasible ones.

A system is infeasible exactly where its graph has a cycle of negative length; the constraints on one such cycle are a
conflict that cannot be made smaller.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from rollwright.record import Message, digest, seed_of
from rollwright.tasks.errors import TaskError
from rollwright.tasks.payload import Json, Payload
from rollwright.tasks.source import SplitSizes, TaskSource, fill_splits

__all__ = ["Difference", "conflict_of", "repair_source"]

_VARIABLES = ("x", "y", "z", "w")
_BUILDER = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """`left - right <= bound`, over whole numbers."""

    name: str
    left: str
    right: str
    bound: int


def conflict_of(system: Sequence[Difference]) -> tuple[str, ...]:
    """Names of the constraints on a cycle of negative length, sorted; empty where the system has a solution.

    Bellman and Ford: exact, and the same for equal systems in equal order.
    """
    nodes = sorted({name for one in system for name in (one.left, one.right)})
    distance = dict.fromkeys(nodes, 0)
    reached_by: dict[str, Difference] = {}
    changed: str | None = None
    for _ in nodes:
        changed = None
        for one in system:
            if distance[one.right] + one.bound < distance[one.left]:
                distance[one.left] = distance[one.right] + one.bound
                reached_by[one.left] = one
                changed = one.left
    if changed is None:
        return ()
    for _ in nodes:  # Back far enough to stand on the cycle.
        changed = reached_by[changed].right
    on_cycle, at = list[str](), changed
    while not on_cycle or at != changed:
        on_cycle.append(reached_by[at].name)
        at = reached_by[at].right
    return tuple(sorted(on_cycle))


def repair_source(sizes: SplitSizes, *, constraints: int = 6, drops: int = 2, seed: int = 0) -> TaskSource:
    """Infeasible systems that become feasible by dropping at most `drops` of their constraints.

    Args:
        sizes: distinct tasks wanted.
        constraints: of each system, 3 to 9.
        drops: 1 to 3.
        seed: of the drawing.
    """
    if not 3 <= constraints <= 9 or not 1 <= drops <= 3:
        raise TaskError(f"{constraints} constraints and {drops} drops; allowed are 3 to 9 and 1 to 3")
    revision = f"repair:{digest([_BUILDER, constraints, drops, seed])[:16]}"
    return fill_splits(_systems(constraints, drops, seed), sizes, name="repair", revision=revision)


def _systems(constraints: int, drops: int, seed: int) -> Iterator[Payload]:
    chance = Random(seed_of(seed, "repair", constraints, drops))
    while True:
        system = [_drawn(f"c{number}", chance) for number in range(1, constraints + 1)]
        if conflict_of(system) and _can_be_repaired(system, drops):
            yield _payload(system, drops)


def _drawn(name: str, chance: Random) -> Difference:
    left, right = chance.sample(_VARIABLES, 2)
    return Difference(name=name, left=left, right=right, bound=chance.randint(-4, 4))


def _can_be_repaired(system: Sequence[Difference], drops: int) -> bool:
    conflict = conflict_of(system)
    if not conflict:
        return True
    if not drops:
        return False
    return any(_can_be_repaired([one for one in system if one.name != name], drops - 1) for name in conflict)


def _payload(system: Sequence[Difference], drops: int) -> Payload:
    lines = [f"{one.name}: {one.left}-{one.right}<={one.bound}" for one in system]
    asked = f"make it feasible, drop at most {drops}"
    rows: list[Mapping[str, Json]] = [
        {"name": one.name, "left": one.left, "right": one.right, "bound": one.bound} for one in system
    ]
    return Payload(
        messages=(Message(role="user", text="\n".join([*lines, asked])),),
        answer=asked,
        info={"layout": {"constraints": rows, "drops": drops}, "goal": {"conflict": ""}},
    )
