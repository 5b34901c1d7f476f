"""Find what an objective carries from update to update: coefficients that follow a metric, and parts that remember.

A controller may stand in any part: a regularizer's coefficient, the upper bound of a clip, a coefficient inside a
credit stage. The parts are walked in the order of the objective's fields, through `functools.partial` and records.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import cast

from rollwright.algorithms.errors import ObjectiveError
from rollwright.algorithms.objective import (
    Controller,
    Credit,
    CreditFn,
    CreditInputs,
    Memory,
    Objective,
    Regularizer,
)

__all__ = [
    "advance_memories",
    "coefficient_of",
    "coefficients_of",
    "controllers_of",
    "memories_of",
    "metric_of",
    "restore_states",
    "states_of",
]


def coefficient_of(coefficient: float | Controller) -> float:
    """The number in effect now: the constant itself, or what its controller says."""
    return coefficient.value() if isinstance(coefficient, Controller) else float(coefficient)


def controllers_of(objective: Objective) -> Mapping[str, Controller]:
    """Every controller of an objective, once.

    Args:
        objective: the composition.

    Returns:
        Place, such as `kl` for a regularizer's coefficient or `surrogate.high`, to controller, in the order of parts.
    """
    found: dict[str, Controller] = {}
    for place, part in _parts_of(objective):
        if _is_stateful(type(part)) and isinstance(part, Controller) and all(part is not one for one in found.values()):
            found[place] = part
    return found


def memories_of(objective: Objective) -> Mapping[str, Memory]:
    """Every part of the credit that remembers rows of earlier steps, once: place to part, in the order of parts."""
    found: dict[str, Memory] = {}
    for place, part in _walk("credit", objective.credit):
        if _is_stateful(type(part)) and isinstance(part, Memory) and all(part is not one for one in found.values()):
            found[place] = part
    return found


def advance_memories(objective: Objective, inputs: CreditInputs) -> None:
    """Let every memory take a step in, once, after its credit was made.

    Args:
        objective: the composition.
        inputs: the rows that its credit was made from. A memory inside a stage takes in what the stage hands it.
    """
    waiting = list(memories_of(objective).values())
    if not waiting:
        return
    _advancing(objective.credit, waiting)(inputs)
    if waiting:
        raise ObjectiveError(
            f"the credit of {objective.name} holds a memory that its stages never call; build credits from functions "
            "and functools.partial."
        )


def coefficients_of(objective: Objective) -> Mapping[str, float]:
    """The coefficients in effect for the next update.

    Args:
        objective: the composition.

    Returns:
        Component of each regularizer, and place of each controller that stands elsewhere, to the number.
    """
    constants = {one.component: coefficient_of(one.coefficient) for one in objective.regularizers}
    return {**constants, **{place: one.value() for place, one in controllers_of(objective).items()}}


def states_of(objective: Objective) -> tuple[Mapping[str, float], ...]:
    """The state of every controller, then of every memory, in the order of parts: what a checkpoint keeps."""
    return tuple(dict(part.state()) for part in _stateful(objective).values())


def restore_states(objective: Objective, states: Sequence[Mapping[str, float]]) -> None:
    """Let every controller and memory go on from its state.

    Args:
        objective: the composition, as it was when `states_of` took them.
        states: one a part.
    """
    parts = _stateful(objective)
    if len(parts) != len(states):
        raise ObjectiveError(
            f"{objective.name} carries {len(parts)} parts from update to update {sorted(parts)}, but {len(states)} "
            "states were given; go on with the objective that the states were taken from."
        )
    for part, state in zip(parts.values(), states, strict=True):
        part.restore(state)


def metric_of(metrics: Mapping[str, float], name: str, *, read_by: str) -> float:
    """The metric that a controller follows; NaN where the update left it undefined.

    Args:
        metrics: of an update, by logged name.
        name: that the controller follows.
        read_by: the controller, for the error.

    Returns:
        Its value; a name that is not logged at all is an error, else the controller would never act.
    """
    if name not in metrics:
        raise ObjectiveError(
            f"{read_by} follows the metric {name!r}, which no update has; there are {sorted(metrics)}."
        )
    return metrics[name]


def _stateful(objective: Objective) -> Mapping[str, Controller | Memory]:
    return {**controllers_of(objective), **memories_of(objective)}


def _advancing(credit: CreditFn, waiting: list[Memory]) -> CreditFn:
    """The same credit, in which each waiting memory takes in the rows that it is called with."""
    if isinstance(credit, Memory):
        memory = credit

        def called(inputs: CreditInputs) -> Credit:
            found = memory(inputs)
            if any(memory is one for one in waiting):
                waiting[:] = [one for one in waiting if one is not memory]
                memory.advance(inputs)
            return found

        return called
    around: object = credit
    if isinstance(around, partial) and "credit" in around.keywords:
        # The keyword of every stage around a credit.
        stage = cast("partial[Credit]", around)
        return partial(stage, credit=_advancing(stage.keywords["credit"], waiting))
    return credit


def _parts_of(objective: Objective) -> Iterator[tuple[str, object]]:
    """Every part with its place; a regularizer's own parts stand under its component."""
    for one in fields(objective):
        if one.name != "regularizers":
            yield from _walk(one.name, _field(objective, one.name))
    for regularizer in objective.regularizers:
        yield from _regularizer_parts(regularizer)


def _regularizer_parts(regularizer: Regularizer) -> Iterator[tuple[str, object]]:
    yield regularizer.component, regularizer.coefficient
    yield from _walk(f"{regularizer.component}.per_token", regularizer.per_token)
    yield from _walk(f"{regularizer.component}.weights", regularizer.weights)


def _walk(place: str, part: object) -> Iterator[tuple[str, object]]:
    yield place, part
    if _is_stateful(type(part)):
        return
    inner: dict[str, object] = {}
    if isinstance(part, partial):
        arguments: list[object] = [part.func, *part.args]
        inner = {**{str(number): one for number, one in enumerate(arguments)}, **part.keywords}
    elif isinstance(part, tuple):
        inner = {str(number): one for number, one in enumerate(cast("tuple[object, ...]", part))}
    elif is_dataclass(part) and not isinstance(part, type):
        inner = {one.name: _field(part, one.name) for one in fields(part)}
    for name, one in inner.items():
        yield from _walk(f"{place}.{name}", one)


@cache
def _is_stateful(kind: type[object]) -> bool:
    """Looked at once a type: a protocol is compared method by method, and every update walks all parts a few times."""
    return issubclass(kind, Controller | Memory)


def _field(record: object, name: str) -> object:
    """A field that `dataclasses.fields` named."""
    return object.__getattribute__(record, name)
