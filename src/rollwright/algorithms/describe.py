"""What an objective is, in words and formulas: each of its parts with its method, its numbers and its source.

A part is looked up in the catalogue by the function or class that made it. Functions with numbers
(`functools.partial`), records, controllers and everything that they hold are walked; a part that the catalogue does
not know is named as `module:qualname`.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import MethodType
from typing import cast

from rollwright.algorithms.catalogue import Fact, Part, Role, method_of, part_of
from rollwright.algorithms.disclosure import StandIn, StandInWord
from rollwright.algorithms.objective import Controller, Objective, Regularizer

__all__ = ["UNKNOWN_NUMBER", "Description", "PartDescription", "Undisclosed", "describe", "qualified_name"]

UNKNOWN_NUMBER = "?"
"""Stands for a number that the composition leaves out."""

_WHOLE = 1e15
_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{(\w+)\}")
_BRACES = {"{{": "{", "}}": "}"}
_LEFT_SIDE = re.compile(r"^\w+ = ")
"""Of a formula: what it gives has another name inside another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undisclosed:
    """A constant that the source of a method names without its value."""

    name: str
    who: str
    value: str
    """What this composition takes for it; `?` where it leaves it out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDescription:
    """A part of an objective, and the parts inside it."""

    role: Role
    place: str
    """Where it stands: `credit`, `credit.credit`, `surrogate.high`, `kl` for a regularizer, `kl.weights`."""
    name: str
    """`module:qualname` of the function or class."""
    method: str | None
    """Id; None for a part that the catalogue does not know, or that changes nothing."""
    formula: str
    """With its numbers; the name where the catalogue does not know it."""
    numbers: Mapping[str, str]
    """Argument to its value in words, those that are parts left out."""
    facts: frozenset[Fact]
    source: str
    """Publication or public code; empty where the catalogue does not know it."""
    undisclosed: tuple[Undisclosed, ...]
    inner: tuple["PartDescription", ...]
    """In the order of the arguments."""

    def walk(self) -> Iterator["PartDescription"]:
        """This part, then those inside it."""
        yield self
        for one in self.inner:
            yield from one.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """An objective, part by part."""

    name: str
    parts: tuple[PartDescription, ...]
    """Credit, ratio, keep, correction, surrogate, weights, then stages and regularizers."""
    needs: tuple[str, ...]
    before_credit: tuple[str, ...]
    component: str
    acts_without_advantage: bool

    def of_role(self, role: Role) -> tuple[PartDescription, ...]:
        """The parts that stand in this role, each with what is inside it."""
        return tuple(one for one in self.parts if one.role == role)

    def walk(self) -> Iterator[PartDescription]:
        """Every part, outer before inner."""
        for one in self.parts:
            yield from one.walk()


def describe(objective: Objective) -> Description:
    """Say what an objective is made of.

    Args:
        objective: any composition, legal or not, with parts of this library or of others.

    Returns:
        Its parts with method, formula, numbers, source and undisclosed constants.
    """
    main: tuple[tuple[Role, object], ...] = (
        ("credit", objective.credit),
        ("ratio", objective.ratio),
        ("keep", objective.keep),
        ("correction", objective.correction),
        ("surrogate", objective.surrogate),
        ("weights", objective.weights),
    )
    return Description(
        name=objective.name,
        parts=(
            *(_described(role, role, part) for role, part in main),
            *(_described("stage", stage.name, stage.make) for stage in objective.stages),
            *(_regularizer(one) for one in objective.regularizers),
        ),
        needs=tuple(sorted(objective.needs)),
        before_credit=tuple(sorted(objective.before_credit)),
        component=objective.component,
        acts_without_advantage=objective.acts_without_advantage,
    )


def qualified_name(make: object) -> str:
    """`module:qualname` of a function or class."""
    if inspect.isfunction(make) or inspect.isclass(make) or inspect.isbuiltin(make):
        return f"{make.__module__}:{make.__qualname__}"
    return f"{type(make).__module__}:{type(make).__qualname__}"


def _regularizer(regularizer: Regularizer) -> PartDescription:
    """The term, with its coefficient before it and its weights inside it."""
    place = regularizer.component
    term = _described("regularizer", place, regularizer.per_token)
    inner = [_described("weights", f"{place}.weights", regularizer.weights)]
    if isinstance(regularizer.coefficient, Controller):
        inner.insert(0, _described("controller", f"{place}.coefficient", regularizer.coefficient))
    return PartDescription(
        role="regularizer",
        place=place,
        name=term.name,
        method=term.method,
        formula=f"{_coefficient(regularizer.coefficient)}·({term.formula})",
        numbers={"coefficient": _coefficient(regularizer.coefficient), **term.numbers},
        facts=term.facts,
        source=term.source,
        undisclosed=term.undisclosed,
        inner=(*term.inner, *inner),
    )


def _described(role: Role, place: str, part: object, kept: Mapping[str, str] | None = None) -> PartDescription:
    """A part and those inside it; `kept` has the undisclosed constants of the part around it."""
    made = _taken_apart(part)
    entry = part_of(made.make, role)
    method = None if entry is None else method_of(entry.method)
    kept = {**(kept or {}), **({} if method is None else method.undisclosed)}
    inner = tuple(
        _described(_role_inside(role, one), f"{place}.{name}", one, kept)
        for name, one in made.arguments.items()
        if _is_part(one)
    )
    words = {name: _in_words(one) for name, one in made.arguments.items() if not _is_part(one)}
    if entry is None:
        return PartDescription(
            role=role,
            place=place,
            name=qualified_name(made.make),
            method=None,
            formula=qualified_name(made.make),
            numbers=words,
            facts=frozenset(),
            source="",
            undisclosed=(),
            inner=inner,
        )
    undisclosed = _undisclosed(kept, made.arguments)
    said = {**words, **{one.name: one.value for one in undisclosed}}
    inside = {one.place.rpartition(".")[2]: _inside(one) for one in inner}
    return PartDescription(
        role=role,
        place=place,
        name=qualified_name(made.make),
        method=entry.method or None,
        formula=_filled(entry.formula, {**said, **inside}),
        numbers=said,
        facts=_facts(entry, made.arguments),
        source="" if method is None else method.source,
        undisclosed=undisclosed,
        inner=inner,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What made a part, and with which arguments; what was left out has its default, or `_LEFT_OUT`."""

    make: object
    arguments: Mapping[str, object]


class _LeftOut:
    """The value of an argument that has no default and was not given."""


_LEFT_OUT = _LeftOut()


def _taken_apart(part: object) -> _Made:
    if isinstance(part, MethodType):
        return _taken_apart(part.__self__)
    if isinstance(part, partial):
        whole = cast("partial[object]", part)
        inner = _taken_apart(whole.func)
        named = dict(zip(_free(inner), whole.args, strict=False))
        return _Made(make=inner.make, arguments={**inner.arguments, **named, **whole.keywords})
    if inspect.isfunction(part):
        return _Made(make=part, arguments=_defaults(part))
    if is_dataclass(part) and not isinstance(part, type):
        shown = [one.name for one in fields(part) if one.init]
        return _Made(make=type(part), arguments={name: _field(part, name) for name in shown})
    if isinstance(part, type) or inspect.isbuiltin(part):
        return _Made(make=part, arguments={})
    return _Made(make=type(part), arguments=_kept(part))


def _defaults(function: Callable[..., object]) -> dict[str, object]:
    """Keyword-only arguments of a part, with their defaults; positional ones are what it is called with."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return {one.name: _LEFT_OUT if one.default is inspect.Parameter.empty else one.default for one in named}


def _free(made: _Made) -> Sequence[str]:
    """Names of the arguments that a `partial` binds by position."""
    if not inspect.isfunction(made.make):
        return ()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [one.name for one in inspect.signature(made.make).parameters.values() if one.kind in kinds]


def _kept(part: object) -> dict[str, object]:
    """What an object that is no record keeps under the names of its constructor's arguments."""
    wanted = inspect.signature(type(part)).parameters
    held: dict[str, object] = vars(part) if hasattr(part, "__dict__") else {}
    return {name: held[name] for name in wanted if name in held}


def _field(record: object, name: str) -> object:
    """A field that `dataclasses.fields` named."""
    return object.__getattribute__(record, name)


def _is_part(value: object) -> bool:
    """Whether an argument is a part itself: something to call, a controller, or a record of the catalogue."""
    if isinstance(value, type):
        return False
    return callable(value) or isinstance(value, Controller) or part_of(type(value), None) is not None


def _role_inside(outer: Role, part: object) -> Role:
    """The role of a part inside another: that of the catalogue, else the outer one's."""
    if isinstance(part, Controller):
        return "controller"
    entry = part_of(_taken_apart(part).make, outer) or part_of(_taken_apart(part).make, None)
    return outer if entry is None else entry.role


def _facts(entry: Part, arguments: Mapping[str, object]) -> frozenset[Fact]:
    conditional: list[Fact] = [one.fact for one in entry.facts_when if arguments.get(one.argument) == one.value]
    return entry.facts.union(conditional)


def _undisclosed(kept: Mapping[str, str], arguments: Mapping[str, object]) -> tuple[Undisclosed, ...]:
    return tuple(
        Undisclosed(name=name, who=who, value=_chosen(arguments[name]))
        for name, who in kept.items()
        if name in arguments and not _is_part(arguments[name])
    )


def _chosen(value: object) -> str:
    return UNKNOWN_NUMBER if value is None else _in_words(value)


def _filled(formula: str, words: Mapping[str, str]) -> str:
    """The formula with each {argument} replaced; {{ and }} are braces, and what has no word stays as it is."""

    def word(found: re.Match[str]) -> str:
        return _BRACES.get(found[0]) or words.get(found[1], found[0])

    return _PLACEHOLDER.sub(word, formula)


def _inside(part: PartDescription) -> str:
    """How a part stands in the formula of the one around it: a controller by its argument's name."""
    if part.role == "controller":
        return part.place.rpartition(".")[2]
    return f"[{_LEFT_SIDE.sub('', part.formula)}]"


def _coefficient(coefficient: float | Controller) -> str:
    return "coefficient" if isinstance(coefficient, Controller) else _in_words(coefficient)


def _in_words(value: object) -> str:
    """A number or a word as a formula has it."""
    match value:
        case _LeftOut() | StandIn() | StandInWord():
            return UNKNOWN_NUMBER
        case bool() | None:
            return str(value).lower()
        case float():
            return _number(value)
        case tuple() | list():
            return f"({', '.join(_in_words(one) for one in cast('Sequence[object]', value))})"
        case dict():
            items = cast("Mapping[object, object]", value).items()
            return f"{{{', '.join(f'{_in_words(name)}: {_in_words(one)}' for name, one in items)}}}"
        case _:
            return str(value)


def _number(value: float) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    return f"{value:.0f}" if value.is_integer() and abs(value) < _WHOLE else f"{value:.10g}"
