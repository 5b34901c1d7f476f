"""A manifest as tables: sections with their fields, the configuration with the origin of each value, the segments."""

import json
from dataclasses import dataclass
from typing import Final, cast

from rollwright.evidence import Manifest
from rollwright.evidence.manifest import manifest_to_json

__all__ = ["Field", "Section", "sections_of"]

_ELSEWHERE: Final = ("configuration", "segment")
_TITLES: Final = {"run": "Run", "model": "Model", "data": "Data", "environment": "Environment", "reward": "Reward"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value."""

    path: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The fields of one part of a manifest."""

    title: str
    fields: tuple[Field, ...]


def sections_of(manifest: Manifest) -> tuple[Section, ...]:
    """All but the configuration and the segment, which have tables of their own."""
    content = cast("dict[str, object]", json.loads(manifest_to_json(manifest)))
    single: list[Field] = []
    sections: list[Section] = []
    for name, value in content.items():
        if name in _ELSEWHERE:
            continue
        fields = _flat("", value)
        if isinstance(value, dict | list):
            title = _TITLES.get(name, name.replace("_", " ").capitalize())
            sections.append(Section(title=title, fields=tuple(fields)))
        else:
            single.append(Field(path=name, value=_text(value)))
    return (*sections, Section(title="Besides", fields=tuple(single)))


def _flat(path: str, value: object) -> list[Field]:
    match value:
        case dict():
            items = cast("dict[str, object]", value).items()
            return [f for key, inner in items for f in _flat(f"{path}.{key}".lstrip("."), inner)]
        case list():
            inner_values = cast("list[object]", value)
            if all(not isinstance(inner, dict | list) for inner in inner_values):
                return [Field(path=path, value=", ".join(map(_text, inner_values)) or "none")]
            return [f for at, inner in enumerate(inner_values) for f in _flat(f"{path}.{at}".lstrip("."), inner)]
        case _:
            return [Field(path=path, value=_text(value))]


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case _:
            return str(value)
