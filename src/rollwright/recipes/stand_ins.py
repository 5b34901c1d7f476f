"""An objective whose undisclosed constants are left out, made with stand-ins so that it can be looked at."""

from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Literal, TypeVar, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rollwright.algorithms.disclosure import StandIn, StandInWord, UndisclosedError
from rollwright.algorithms.errors import ObjectiveError
from rollwright.recipes.config.shapes import choices_of, kind_of, sections_of
from rollwright.recipes.flat import Node

__all__ = ["first_choice", "made_with_stand_ins"]

Made = TypeVar("Made")
Config = TypeVar("Config", bound=BaseModel)

_FAR = 10.0
_NEAR = 0.5
"""Distances from a lower bound at which a number without an upper one is tried."""


def made_with_stand_ins(config: Config, make: Callable[[Config], Made]) -> tuple[Made, tuple[str, ...]]:
    """What `make` gives, with stand-ins for the constants whose absence it refuses.

    Args:
        config: sections, some of whose fields are None.
        make: raises `UndisclosedError` for a constant that was left out.

    Returns:
        What it made, and the dotted keys that stand-ins were put in for.
    """
    keys: list[str] = []
    while True:
        try:
            return make(config), tuple(keys)
        except UndisclosedError as error:
            found = _next(config, make, str(error))
            if found is None:
                raise
            config, filled = found
            keys += filled


def first_choice(field: FieldInfo) -> Node:
    """A value that a field takes: the first kind of a section, or the first word of a choice."""
    sections = sections_of(field.annotation)
    if sections:
        return {"kind": kind_of(sections[0]) or ""}
    words = [word for choice in choices_of(field.annotation) for word in get_args(choice)]
    return str(words[0])


def _next(config: Config, make: Callable[[Config], Made], refusal: str) -> tuple[Config, list[str]] | None:
    """The config with one more section filled, if that does away with the refusal; None where nothing does."""
    other: ObjectiveError | None = None
    for name in type(config).model_fields:
        section = dict(config).get(name)
        if not isinstance(section, BaseModel):
            continue
        for filled in _filled(section):
            candidate = config.model_copy(update={name: section.model_copy(update=dict(filled))})
            left = _refusal_of(candidate, make)
            if left is None or (isinstance(left, UndisclosedError) and str(left) != refusal):
                return candidate, [f"{name}.{key}" for key in filled]
            if other is None and not isinstance(left, UndisclosedError):
                other = left
    if other is not None:  # whatever the constants are, the composition is refused
        raise other
    return None


def _refusal_of(config: Config, make: Callable[[Config], Made]) -> ObjectiveError | None:
    try:
        make(config)
    except ObjectiveError as error:
        return error
    return None


def _filled(section: BaseModel) -> Iterator[Mapping[str, float | str]]:
    """Stand-ins for all fields of a section that are None, in each combination."""
    empty = {name: field for name, field in type(section).model_fields.items() if dict(section)[name] is None}
    options = [tuple(_stand_ins(field)) for field in empty.values()]
    if empty and all(options):
        for values in product(*options):
            yield dict(zip(empty, values, strict=True))


def _stand_ins(field: FieldInfo) -> Iterator[float | str]:
    choices = choices_of(field.annotation)
    for choice in choices:
        if get_origin(choice) is Literal:
            yield StandInWord(get_args(choice)[0])
    if float in choices:
        low, high = _range(field)
        yield from map(StandIn, (low + _FAR, low + _NEAR) if high is None else ((low + high) / 2.0,))


def _range(field: FieldInfo) -> tuple[float, float | None]:
    """The bounds of a number; 0 and None where the field has none."""
    low, high = 0.0, None
    for limit in field.metadata:
        match limit:
            case Gt() | Ge():
                low = float(str(limit.gt if isinstance(limit, Gt) else limit.ge))
            case Lt() | Le():
                high = float(str(limit.lt if isinstance(limit, Lt) else limit.le))
            case _:
                pass
    return low, high
