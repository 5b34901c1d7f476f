"""From the name or the file of a protocol to the values of a recipe's evaluation."""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from pydantic import ValidationError

from rollwright.recipes.config.evaluation import ProtocolConfig
from rollwright.recipes.errors import RecipeError
from rollwright.recipes.flat import Node, Tree
from rollwright.recipes.keys import closest
from rollwright.recipes.lines import line_of, lines_of
from rollwright.recipes.sentences import problems_of

__all__ = ["expand_protocols", "protocol_names", "read_protocol"]

_SHIPPED = resources.files("rollwright.recipes.protocols")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Written:
    tree: Tree
    origin: str


def protocol_names() -> tuple[str, ...]:
    """Names of the protocols that ship, sorted."""
    return tuple(sorted(p.name.removesuffix(".toml") for p in _SHIPPED.iterdir() if p.name.endswith(".toml")))


def read_protocol(name: str) -> ProtocolConfig:
    """A protocol that ships, or that of a file.

    Args:
        name: of one that ships, or the path of a .toml file.

    Raises:
        RecipeError: with a sentence for each key that is wrong.
    """
    return ProtocolConfig.model_validate(_written(name).tree)


def expand_protocols(tree: Tree, origins: Mapping[str, str], is_set: Callable[[str], bool]) -> dict[str, str]:
    """Write the values of the protocols that `evaluation.protocol` names into a recipe's tree, in place.

    Args:
        tree: of a recipe.
        origins: of the values that are written.
        is_set: whether the command line wrote a key, which then stays.

    Returns:
        Dotted key to origin of what was written here.

    Raises:
        RecipeError: for a protocol that cannot be had, and for values beside one that would decide them.
    """
    section = tree.get("evaluation")
    named = section.get("protocol") if isinstance(section, dict) else None
    if not isinstance(section, dict) or not named:
        return {}
    names = [str(one) for one in (named if isinstance(named, list) else [named])]
    first, *others = [_written(name) for name in names]
    section["protocol"] = list[Node](names)
    by_command_line = is_set("evaluation.protocol")
    for key in ProtocolConfig.model_fields:
        dotted = f"evaluation.{key}"
        if key not in section or is_set(dotted):
            continue
        if not by_command_line:
            raise RecipeError(
                f"{dotted} stands beside evaluation.protocol ({origins.get(dotted, 'the recipe')}), which decides it; "
                "write the value into the protocol's file, or leave evaluation.protocol out."
            )
        del section[key]
    found: dict[str, str] = {}
    for key, value in first.tree.items():
        if key not in section:
            section[key] = value
            found[f"evaluation.{key}"] = first.origin
    if others:
        section["also"] = [one.tree for one in others]
        found |= {f"evaluation.also.{n}.{key}": one.origin for n, one in enumerate(others) for key in one.tree}
    return found


def _written(name: str) -> _Written:
    """The tree of a protocol, checked by itself, so that what is wrong is told of its own file."""
    text, origin = _text(name)
    try:
        tree: Tree = tomllib.loads(text)
    except ValueError as error:
        raise RecipeError(f"{origin} is not TOML: {error}.") from error
    tree.setdefault("name", Path(name).stem if name.endswith(".toml") else name)
    lines = lines_of(text)

    def where(key: str) -> str:
        line = line_of(key, lines)
        return origin if line is None else f"line {line} of {origin}"

    try:
        ProtocolConfig.model_validate(tree)
    except ValidationError as error:
        raise RecipeError.of(problems_of(error, ProtocolConfig, where)) from error
    return _Written(tree=tree, origin=origin)


def _text(name: str) -> tuple[str, str]:
    if not name.endswith(".toml") and "/" not in name:
        if name not in protocol_names():
            near = closest(name, protocol_names(), 0.4)
            hint = f" Did you mean {near}?" if near else ""
            raise RecipeError(
                f"no protocol {name!r}; there are {', '.join(protocol_names())}, or give the path of a .toml "
                f"file.{hint}"
            )
        return (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8"), f"protocol {name}"
    path = Path(name)
    if not path.is_file():
        raise RecipeError(f"no protocol file {name}; give one that exists, or one of {', '.join(protocol_names())}.")
    try:
        return path.read_text(encoding="utf-8"), f"protocol file {path.name}"
    except UnicodeDecodeError as error:
        raise RecipeError(f"{name} is not text in UTF-8: {error.reason} at byte {error.start}.") from error
