"""The dotted keys of a configuration class, for paths, origins and suggestions."""

import difflib
import types
import typing
from collections.abc import Iterator

from pydantic import BaseModel

__all__ = ["dotted_keys", "nearest_key"]


def _members(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Annotated, typing.Union, types.UnionType, tuple, list):
        for argument in typing.get_args(annotation):
            yield from _members(argument)


def dotted_keys(config: type[BaseModel], prefix: str = "") -> tuple[str, ...]:
    """All dotted keys that `config` takes, those of every member of a union included; list places are `*`."""
    keys: dict[str, None] = {}
    for name, field in config.model_fields.items():
        path = f"{prefix}{name}"
        inner = tuple(_members(field.annotation))
        is_list = typing.get_origin(field.annotation) is tuple
        if not inner:
            keys[path] = None
        for member in inner:
            for key in dotted_keys(member, f"{path}.*." if is_list else f"{path}."):
                keys[key] = None
    return tuple(keys)


def nearest_key(config: type[BaseModel], wrong: str) -> str | None:
    """The key that a person most likely meant by `wrong`: by its whole path, else by its last part."""
    keys = dotted_keys(config)
    found = difflib.get_close_matches(wrong, keys, n=1, cutoff=0.7)
    if found:
        return found[0]
    section, _, last = wrong.rpartition(".")
    pools = [{k.rpartition(".")[2]: k for k in keys if k.startswith(section)}, {k.rpartition(".")[2]: k for k in keys}]
    for pool in pools:
        close = difflib.get_close_matches(last, list(pool), n=1, cutoff=0.6)
        if close:
            return pool[close[0]]
    aliases = {k for k in keys if last and last in _abbreviations(k.rpartition(".")[2])}
    return min(aliases) if aliases else None


def _abbreviations(name: str) -> frozenset[str]:
    words = name.split("_")
    return frozenset({"".join(w[0] for w in words if w), "".join(words)})
