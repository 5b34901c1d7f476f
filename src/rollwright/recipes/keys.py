"""The dotted keys of a configuration class: which there are, what each takes, and which a person most likely meant."""

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import cast, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from rollwright.recipes.aliases import key_called
from rollwright.recipes.config.shapes import is_list, item_of, kind_of, sections_of

__all__ = ["Located", "closest", "dotted_keys", "fields_at", "locate", "nearest_key"]

ANY_PLACE = "*"
"""Stands for a place of a list in `dotted_keys`."""

_ANYWHERE = ("kind", "name")
"""Names in so many sections that another section's is no hint."""


@cache
def dotted_keys(config: type[BaseModel]) -> tuple[str, ...]:
    """All dotted keys that `config` takes, those of every kind of a section included; list places are `*`."""
    return tuple(dict.fromkeys(_keys(config, "")))


def _keys(config: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in config.model_fields.items():
        sections = sections_of(field.annotation)
        inner = f"{prefix}{name}.{ANY_PLACE}." if is_list(field.annotation) else f"{prefix}{name}."
        if not sections or is_list(field.annotation):
            yield f"{prefix}{name}"
        for section in sections:
            yield from _keys(section, inner)


def fields_at(config: type[BaseModel], path: Sequence[str]) -> tuple[FieldInfo, ...]:
    """What a path of names may lead to: one field, or one for each kind that has it; empty where it leads nowhere.

    Args:
        config: where the path starts.
        path: names; a place of a list may be any text.
    """
    here: list[object] = [config]
    found: tuple[FieldInfo, ...] = ()
    for part in path:
        lists = [a for a in here if is_list(a)]
        sections = [s for a in here if not is_list(a) for s in sections_of(a)]
        found = tuple(s.model_fields[part] for s in sections if part in s.model_fields)
        here = [*(item_of(a) for a in lists), *(field.annotation for field in found)]
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """Where one of pydantic's locations lies in what a person wrote."""

    key: str
    """Dotted, without the kinds that pydantic names on the way."""
    section: type[BaseModel] | None
    """The class that the last key belongs to, or should have."""
    field: FieldInfo | None
    """None where the section has no such key."""


def locate(config: type[BaseModel], location: Sequence[int | str]) -> Located:
    """Follow a location, in which the chosen kind of a section stands behind the section's name."""
    here: object = config
    section: type[BaseModel] | None = None
    field: FieldInfo | None = None
    written: list[str] = []
    for part in location:
        sections = () if is_list(here) else sections_of(here)
        chosen = next((s for s in sections if len(sections) > 1 and kind_of(s) == part), None)
        if chosen is not None:
            here = chosen
        elif is_list(here) and isinstance(part, int):
            written.append(str(part))
            here = item_of(here)
        elif len(sections) == 1:
            section = sections[0]
            field = section.model_fields.get(str(part))
            written.append(str(part))
            here = None if field is None else field.annotation
        else:
            if get_origin(here) is dict:
                written.append(str(part))
                field = FieldInfo.from_annotation(cast("type[object]", get_args(here)[1]))
            here = None
    return Located(key=".".join(written), section=section, field=field)


def nearest_key(config: type[BaseModel], wrong: str) -> str | None:
    """The key that a person most likely meant by `wrong`.

    In this order: the same letters in another case or with dashes; the same name in another section; what another
    system calls it; the closest spelling, in its section first; an abbreviation.

    Args:
        config: whose keys to choose from.
        wrong: dotted; places of lists are numbers.
    """
    places = [part for part in wrong.split(".") if part.isdigit()]
    meant = ".".join(ANY_PLACE if part.isdigit() else part for part in wrong.lower().replace("-", "_").split("."))
    keys = dotted_keys(config)
    if meant in keys:
        return _with_places(meant, places)
    section, _, last = meant.rpartition(".")
    names: dict[str, str] = {}
    for key in sorted(keys, key=lambda k: (k.rpartition(".")[0] != section, ANY_PLACE in k)):
        names.setdefault(key.rpartition(".")[2], key)
    near = (
        (names.get(last) if last not in _ANYWHERE else None)
        or _called(names, keys, last)
        or closest(meant, keys, 0.75)
        or names.get(closest(last, tuple(k.rpartition(".")[2] for k in keys if k.startswith(section)), 0.6) or "")
        or names.get(closest(last, tuple(names), 0.7) or "")
        or next((key for name, key in names.items() if last in _abbreviations(name)), None)
    )
    return None if near is None else _with_places(near, places)


def _called(names: dict[str, str], keys: Sequence[str], last: str) -> str | None:
    """Our key for another system's name: in the section where it was written, if that has it too."""
    ours = key_called(last)
    if ours is None:
        return None
    near = names.get(ours.rpartition(".")[2])
    return near if near is not None and ANY_PLACE in near else ours if ours in keys else None


def closest(word: str, words: Sequence[str], cutoff: float) -> str | None:
    """The word spelled most like `word`, if one is at least `cutoff` alike."""
    if (same := next((one for one in words if one.lower() == word.lower()), None)) is not None:
        return same
    found = difflib.get_close_matches(word, words, n=1, cutoff=cutoff)
    return found[0] if found else None


def _abbreviations(name: str) -> frozenset[str]:
    words = [word for word in name.split("_") if word]
    return frozenset({"".join(word[0] for word in words), "".join(words)})


def _with_places(key: str, places: Sequence[str]) -> str:
    left = iter(places)
    return ".".join(next(left, "0") if part == ANY_PLACE else part for part in key.split("."))
