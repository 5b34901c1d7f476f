"""What pydantic found wrong, as sentences: the key, what was given, what is allowed, where it is written."""

import json
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rollwright.recipes.config.shapes import choices_of, is_list, item_of, kind_of, sections_of
from rollwright.recipes.flat import flatten
from rollwright.recipes.keys import Located, closest, dotted_keys, fields_at, locate, nearest_key

__all__ = ["allowed", "given", "problems_of"]

_LONGEST = 60
"""Characters of a value that a sentence repeats."""


def problems_of(error: ValidationError, config: type[BaseModel], where: Callable[[str], str]) -> tuple[str, ...]:
    """One sentence for each key that is wrong.

    Args:
        error: what pydantic says.
        config: the class that was validated.
        where: gives for a dotted key where it is written, or nothing.
    """
    found: dict[str, None] = {}
    told: set[str] = set()
    for problem in error.errors():
        place = locate(config, problem["loc"])
        is_told = any(key == place.key or key.startswith(f"{place.key}.") for key in told)
        if is_told and problem["type"] != "value_error":
            continue
        told.add(place.key)
        found |= dict.fromkeys(_sentences(problem, place, config, where))
    return tuple(found)


def allowed(field: FieldInfo) -> str:
    """What a field takes, in words."""
    kinds = [kind for section in sections_of(field.annotation) if (kind := kind_of(section)) is not None]
    if kinds and not is_list(field.annotation):
        return f"a section of kind {_or(kinds)}"
    words = dict.fromkeys(word for choice in choices_of(field.annotation) for word in _kinds(choice))
    return _or(list(words)) + _bounds(field)


def given(value: object) -> str:
    """A value as it was written, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):  # Python writes out no number of more than some thousand digits
        return "a value too long to be repeated"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _sentences(
    problem: ErrorDetails, place: Located, config: type[BaseModel], where: Callable[[str], str]
) -> Iterator[str]:
    key, value = place.key, problem["input"]
    at = f" ({where(key)})" if where(key) else ""
    match problem["type"]:
        case "extra_forbidden":
            yield from _unknown(place, value, config, where)
        case "missing" if place.field is not None:
            yield f"{key} is missing; it takes {allowed(place.field)}."
        case "union_tag_not_found" | "union_tag_invalid":
            chosen = where(f"{key}.kind")
            yield f"{key}.kind{_of_kinds(problem, place, f' ({chosen})' if chosen else at)}"
        case "value_error":
            yield f"{key + ': ' if key else ''}{problem['msg'].removeprefix('Value error, ')}."
        case "string_pattern_mismatch":
            yield f"{key} takes text of the form {_context(problem, 'pattern')}; {given(value)} was given{at}."
        case _ if place.field is not None:
            yield f"{key} takes {allowed(place.field)}; {given(value)} was given{at}{_nearest(value, place.field)}"
        case _:
            yield f"{key}: {problem['msg']}; {given(value)} was given{at}."


def _unknown(place: Located, value: object, config: type[BaseModel], where: Callable[[str], str]) -> Iterator[str]:
    """Each key below an unknown one has a sentence of its own: its section may be all that is wrong."""
    if isinstance(value, Mapping) and value:
        keys = [f"{place.key}.{inner}" for inner, _ in flatten(value)]  # pyright: ignore[reportUnknownArgumentType]  # TOML
    else:
        keys = [place.key]
    for key in keys:
        at = f" ({where(key)})" if where(key) else ""
        yield f"unknown key {key}{at}; {_instead(key, place, config)}"


def _instead(key: str, place: Located, config: type[BaseModel]) -> str:
    near = nearest_key(config, key)
    if near is None:
        sections = ", ".join(dict.fromkeys(k.partition(".")[0] for k in dotted_keys(config)))
        return f"nothing is called so; the sections are {sections}, and `rollwright recipe show NAME` prints all keys."
    if near == key and place.section is not None and kind_of(place.section) is not None:
        section, _, name = key.rpartition(".")
        return f"{section} of kind {kind_of(place.section)} has no {name}{_others(config, section, name)}."
    return f"did you mean {near}?"


def _others(config: type[BaseModel], section: str, name: str) -> str:
    """Which kinds of a section have a key."""
    fields = fields_at(config, section.split("."))
    having = [one for field in fields for one in sections_of(field.annotation) if name in one.model_fields]
    kinds = list(dict.fromkeys(kind for one in having if (kind := kind_of(one)) is not None))
    return f"; kind{'s' if len(kinds) > 1 else ''} {_and(kinds)} {'have' if len(kinds) > 1 else 'has'} it"


def _of_kinds(problem: ErrorDetails, place: Located, at: str) -> str:
    annotation = None if place.field is None else place.field.annotation
    kinds = [kind for section in sections_of(annotation) if (kind := kind_of(section)) is not None]
    if problem["type"] == "union_tag_not_found":
        return f" is missing; it is {_or(kinds)}{at}."
    tag = _context(problem, "tag")
    near = closest(tag, kinds, 0.4)
    return f" is {_or(kinds)}; {given(tag)} was given{at}{f'; did you mean {near}?' if near else '.'}"


def _nearest(value: object, field: FieldInfo) -> str:
    choices = [word for c in choices_of(field.annotation) if get_origin(c) is Literal for word in get_args(c)]
    near = closest(value, [str(choice) for choice in choices], 0.5) if isinstance(value, str) else None
    return "." if near is None else f"; did you mean {near}?"


def _context(problem: ErrorDetails, name: str) -> str:
    return str(problem.get("ctx", {}).get(name, ""))


def _kinds(annotation: object) -> tuple[str, ...]:
    if annotation in _PLAIN:
        return (_PLAIN[annotation],)
    origin = get_origin(annotation)
    if origin is Literal:
        return tuple(given(choice) for choice in get_args(annotation))
    if is_list(annotation):
        inner = item_of(annotation)
        return ("a list of sections",) if sections_of(inner) else (f"a list of {_PLURAL.get(inner, 'values')}",)
    if origin is list:
        return (f"a list of {_PLURAL.get(get_args(annotation)[0], 'values')}",)
    if origin is dict:
        inner = get_args(annotation)[1]
        is_mixed = get_origin(inner) in (Union, types.UnionType)
        return ("a table of values",) if is_mixed else (f"a table of {_PLURAL.get(inner, 'values')}",)
    return ("a section",)


_PLAIN: Mapping[object, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
_PLURAL: Mapping[object, str] = {int: "whole numbers", float: "numbers", str: "text", bool: "true or false"}


def _bounds(field: FieldInfo) -> str:
    low = high = ""
    for limit in field.metadata:
        match limit:
            case Ge():
                low = f"of at least {limit.ge}"
            case Gt():
                low = f"above {limit.gt}"
            case Le():
                high = f"at most {limit.le}"
            case Lt():
                high = f"below {limit.lt}"
            case MinLen():
                low = f"with at least {limit.min_length} in it"
            case _:
                pass
    bounds = " and ".join(bound for bound in (low, high) if bound)
    return f" {bounds}" if bounds else ""


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _or(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
