"""What may stand under a key, read from the annotations of the configuration classes."""

import types
from typing import Annotated, Literal, Union, get_args, get_origin

from pydantic import BaseModel

__all__ = ["choices_of", "is_list", "item_of", "kind_of", "sections_of"]


def choices_of(annotation: object) -> tuple[object, ...]:
    """The members of a union, or the annotation alone; `None` is left out."""
    if get_origin(annotation) is Annotated:
        return choices_of(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(choice for choice in get_args(annotation) if choice is not type(None))
    return (annotation,)


def is_list(annotation: object) -> bool:
    """True where a person writes a list."""
    return get_origin(annotation) is tuple


def item_of(annotation: object) -> object:
    """What stands in each place of a list."""
    assert is_list(annotation), "only lists have items"
    return get_args(annotation)[0]


def sections_of(annotation: object) -> tuple[type[BaseModel], ...]:
    """The configuration classes that may stand here; of a list, those of its items."""
    if is_list(annotation):
        return sections_of(item_of(annotation))
    return tuple(c for c in choices_of(annotation) if isinstance(c, type) and issubclass(c, BaseModel))


def kind_of(section: type[BaseModel]) -> str | None:
    """The `kind` that picks this class among others; None for a section of one form."""
    field = section.model_fields.get("kind")
    if field is None or get_origin(field.annotation) is not Literal:
        return None
    return str(get_args(field.annotation)[0])
